// NCCL or RCCL, opened at run time: nothing links against them.
#pragma once

#include <span>
#include <string>

#include "encore/status.h"
#include "nccl_types.h"

namespace encore::gpu {

// The functions that Encore calls, as the library's own header declares them.
struct NcclFunctions {
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclCommAbort) comm_abort = nullptr;
  decltype(&ncclCommDestroy) comm_destroy = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclCommInitAll) init_all = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclGetLastError) last_error = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  const char* name = "";  // "NCCL" or "RCCL", for messages
};

// Opens the first candidate; see open_functions(). It stays open for the life of the process; its
// environment variables are left as they are.
// Errors: kUnavailable: `message`, then what was tried and why each failed.
Result<NcclFunctions> open_nccl(std::span<const std::string> candidates, const char* name,
                                const std::string& message);

// `what` failed, in the words of a log line.
Status nccl_status(const NcclFunctions& nccl, ncclResult_t result, const std::string& what);

}  // namespace encore::gpu
