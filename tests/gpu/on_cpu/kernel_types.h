// Calls of kernels that are known by address and parameter list alone, as a run-time library knows
// them: how many arguments a kernel takes, how large they are, and how they are passed.
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace encore::gpu::on_cpu {

struct KernelType {
  std::vector<size_t> argument_bytes;
  // Calls `kernel`, of this type, with the arguments that `arguments` points to.
  void (*call)(void* kernel, void** arguments) = nullptr;
};

// Adds a type under its mangled name, that of a function without a result ("FvPfiE"). Whether it is
// new: files that have a type each may both add it. Ends the process if two types are told apart by
// their sizes alone: structs of one name in the anonymous namespaces of two files.
bool add_kernel_type(std::string_view mangled, KernelType type);
// The type whose parameters demangle to `parameters`: "(float*, int)". Null if nothing in the
// process launches such a kernel.
const KernelType* find_kernel_type(std::string_view parameters);

template <typename... Params, size_t... I>
void call_kernel(void* kernel, void** arguments, std::index_sequence<I...>) {
  reinterpret_cast<void (*)(Params...)>(kernel)(
      *static_cast<std::remove_cv_t<Params>*>(arguments[I])...);
}

// Makes the type known from the start of the program that calls this anywhere.
template <typename... Params>
struct NotedKernelType {
  static void call(void* kernel, void** arguments) {
    call_kernel<Params...>(kernel, arguments, std::index_sequence_for<Params...>());
  }
  static inline const bool noted =
      add_kernel_type(typeid(void(Params...)).name(), {{sizeof(Params)...}, &call});
};
template <typename... Params>
bool note_kernel_type() {
  return NotedKernelType<Params...>::noted;
}

}  // namespace encore::gpu::on_cpu
