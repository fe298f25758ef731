#include "demangle.h"

#include <cxxabi.h>

#include <cstdlib>

namespace encore::gpu::on_cpu {

std::string demangle(const std::string& mangled) {
  int status = 0;
  char* name = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 ? name : mangled;
  std::free(name);
  return result;
}

std::string_view parameters_of(std::string_view demangled) {
  if (demangled.empty() || demangled.back() != ')') return {};
  int depth = 0;
  for (size_t i = demangled.size(); i-- > 0;) {
    if (demangled[i] == ')') ++depth;
    if (demangled[i] == '(' && --depth == 0) return demangled.substr(i);
  }
  return {};
}

}  // namespace encore::gpu::on_cpu
