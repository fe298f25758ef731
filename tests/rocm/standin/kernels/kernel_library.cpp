#include "kernel_library.h"

#include <string>

#include "demangle.h"
#include "fibers.h"
#include "kernel_types.h"
#include "own_functions.h"

namespace {

using encore::gpu::on_cpu::KernelType;

thread_local std::string why_not;

const char* refuse(const std::string& why) {
  why_not = why;
  return why_not.c_str();
}

}  // namespace

const char* encore_find_kernel(const char* mangled_name, EncoreHostKernel* kernel) {
  const std::string name = mangled_name;
  const std::string readable = encore::gpu::on_cpu::demangle(name);
  const auto& functions = encore::standin::own_functions();
  const auto found = functions.find(name);
  if (found == functions.end()) {
    return refuse("the kernels compiled for the host lack " + readable + " [" + name + "]" +
                  (functions.empty() ? ": their library has no symbol table" : ""));
  }
  if (found->second.size() > 1) {
    return refuse("two kernels compiled for the host are called " + readable + " [" + name +
                  "]: two files have it in an anonymous namespace; rename one");
  }
  const KernelType* type =
      encore::gpu::on_cpu::find_kernel_type(encore::gpu::on_cpu::parameters_of(readable));
  if (type == nullptr) {
    return refuse("no launch_kernel() in the kernels compiled for the host has the parameters of " +
                  readable + " [" + name + "]");
  }
  *kernel = {found->second.front(), type->call, type->argument_bytes.data(),
             type->argument_bytes.size()};
  return nullptr;
}

void encore_run_kernel(const EncoreHostKernel* kernel, const EncoreHostGrid* grid,
                       void** arguments) {
  const auto dim = [](const uint32_t(&size)[3]) { return dim3(size[0], size[1], size[2]); };
  encore::gpu::on_cpu::run_grid(dim(grid->grid), dim(grid->block), grid->shared_bytes, grid->lanes,
                                [&] { kernel->call(kernel->function, arguments); });
}
