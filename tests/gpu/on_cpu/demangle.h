// Names of functions as C++ writes them.
#pragma once

#include <string>
#include <string_view>

namespace encore::gpu::on_cpu {

// "encore::gpu::copy_kernel(float*, int)"; `mangled` itself if it is no mangled name.
std::string demangle(const std::string& mangled);

// "(float*, int)": the last parenthesis and what it holds. Empty if the name does not end in one.
std::string_view parameters_of(std::string_view demangled);

}  // namespace encore::gpu::on_cpu
