#include "kernel_types.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "demangle.h"

namespace encore::gpu::on_cpu {
namespace {

// By demangled parameters. Filled before main() or while a library is opened.
std::map<std::string, KernelType, std::less<>>& known_types() {
  static std::map<std::string, KernelType, std::less<>> types;
  return types;
}

}  // namespace

bool add_kernel_type(std::string_view mangled, KernelType type) {
  const std::string name = demangle(std::string(mangled));  // "void (float*, int)"
  const auto [known, added] = known_types().emplace(parameters_of(name), type);
  if (known->second.argument_bytes == type.argument_bytes) return added;
  std::fprintf(stderr, "kernel on CPU: two kernels have parameters %s of different sizes\n",
               known->first.c_str());
  std::abort();
}

const KernelType* find_kernel_type(std::string_view parameters) {
  const auto found = known_types().find(parameters);
  return found == known_types().end() ? nullptr : &found->second;
}

}  // namespace encore::gpu::on_cpu
