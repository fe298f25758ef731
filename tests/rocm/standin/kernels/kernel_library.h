// What the stand-in run-time asks of the library of kernels compiled for the host: a kernel by the
// mangled name that device code has. C functions, found with dlsym().
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct EncoreHostKernel {
  void* function;
  void (*call)(void* function, void** arguments);
  const size_t* argument_bytes;
  size_t num_arguments;
};

struct EncoreHostGrid {
  uint32_t grid[3];
  uint32_t block[3];
  size_t shared_bytes;
  int32_t lanes;  // of a wavefront
};

// Null if `kernel` has been filled; else why there is no such kernel, naming it. The text lives
// until the thread's next call.
using EncoreFindKernel = const char* (*)(const char* mangled_name, EncoreHostKernel* kernel);
inline constexpr const char* kFindKernelName = "encore_find_kernel";

// Runs the grid; returns when it has ended.
using EncoreRunKernel = void (*)(const EncoreHostKernel* kernel, const EncoreHostGrid* grid,
                                 void** arguments);
inline constexpr const char* kRunKernelName = "encore_run_kernel";

__attribute__((visibility("default"))) const char* encore_find_kernel(const char* mangled_name,
                                                                      EncoreHostKernel* kernel);
__attribute__((visibility("default"))) void encore_run_kernel(const EncoreHostKernel* kernel,
                                                              const EncoreHostGrid* grid,
                                                              void** arguments);
}
