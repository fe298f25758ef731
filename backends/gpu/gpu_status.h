// The vendor run-time's error codes as statuses.
#pragma once

#include <string>
#include <string_view>

#include "encore/status.h"
#include "vendor.h"

namespace encore::gpu {

// `what` failed, in the words of a log line: "copying weights to the device". The run-time forgets
// the error: it is reported here, and no later call may stumble over it.
inline Status gpu_status(gpuError_t error, std::string_view what) {
  if (error == gpuSuccess) return {};
  static_cast<void>(gpuGetLastError());
  const std::string message =
      std::string(what) + ": " + gpuGetErrorName(error) + " (" + gpuGetErrorString(error) + ")";
  return error == gpuErrorOutOfMemory ? out_of_memory(message) : internal_error(message);
}

}  // namespace encore::gpu
