// NCCL, opened at run time: nothing links against it.
#pragma once

#include <nccl.h>

#include <string>

#include "encore/status.h"

namespace encore::cuda {

// The functions of NCCL that Encore calls, as its own header declares them.
struct NcclFunctions {
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclCommAbort) comm_abort = nullptr;
  decltype(&ncclCommDestroy) comm_destroy = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclCommInitAll) init_all = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclGetLastError) last_error = nullptr;
};

// Opens libnccl.so.2 where the loader finds it, or in $CUDA_PATH and /usr/local/cuda. It stays open
// for the life of the process; its environment variables are left as they are.
// Errors: kUnavailable, naming what was tried and why each failed.
Result<NcclFunctions> open_nccl();

// `what` failed, in the words of a log line.
Status nccl_status(const NcclFunctions& nccl, ncclResult_t result, const std::string& what);

}  // namespace encore::cuda
