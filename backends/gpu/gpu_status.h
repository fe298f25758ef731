// The vendor run-time's error codes as statuses.
#pragma once

#include <string>

#include "encore/status.h"
#include "vendor.h"

namespace encore::gpu {

// `what` failed, in the words of a log line: "copying weights to the device".
inline Status gpu_status(gpuError_t error, const std::string& what) {
  if (error == gpuSuccess) return {};
  const std::string message =
      what + ": " + gpuGetErrorName(error) + " (" + gpuGetErrorString(error) + ")";
  return error == gpuErrorOutOfMemory ? out_of_memory(message) : internal_error(message);
}

}  // namespace encore::gpu
