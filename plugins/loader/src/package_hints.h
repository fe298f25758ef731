// Which package usually brings a shared library that is missing.
#pragma once

#include <string>
#include <string_view>

namespace encore {

// For a library's name such as "libcuda.so.1", the Debian package, or where its vendor's packages
// come from: a phrase that fits after "usually in". Empty if not known.
std::string_view package_hint(std::string_view library);

}  // namespace encore
