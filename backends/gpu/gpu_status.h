// The vendor run-time's error codes as statuses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "encore/status.h"
#include "kernels/gpu/launch.h"
#include "vendor.h"

namespace encore::gpu {

// Whether the device works no more for this process: every later call fails too. By number: CUDA's
// and HIP's are the same, and some have a name in one of them, or in newer headers, alone.
inline bool is_lost(gpuError_t error) {
  switch (static_cast<int32_t>(error)) {
    case 214:  // memory error that cannot be corrected
    case 220:  // the same on NVLink
    case 226:  // memory error, contained
    case 700:  // illegal address
    case 702:  // a kernel ran for too long
    case 709:  // the context is gone
    case 710:  // assertion in a kernel
    case 714:  // hardware stack error
    case 715:  // illegal instruction
    case 716:  // misaligned address
    case 717:  // invalid address space
    case 718:  // invalid program counter
    case 719:  // launch failure: a fault that has no other number
    case 721:  // tensor memory leak
    case 810:  // the MPS server has ended this client
    case 911:  // another device that this one works with was lost
      return true;
    default:
      return false;
  }
}

// `what` failed, in the words of a log line: "copying weights to the device". The run-time forgets
// the error: it is reported here, and no later call may stumble over it.
inline Status gpu_status(gpuError_t error, std::string_view what) {
  if (error == gpuSuccess) return {};
  static_cast<void>(gpuGetLastError());
  const std::string message =
      std::string(what) + ": " + gpuGetErrorName(error) + " (" + gpuGetErrorString(error) + ")";
  if (error == gpuErrorOutOfMemory) return out_of_memory(message);
  return internal_error(message).spoiling(is_lost(error) ? Scope::kDevice : Scope::kRequest);
}

inline Status launch_status(LaunchError error, const char* kernel) {
  if (error == 0) return {};
  return gpu_status(static_cast<gpuError_t>(error), std::string("launching ") + kernel);
}

}  // namespace encore::gpu
