// Of RCCL's interface what Encore calls, declared here because few machines that build it have
// RCCL's header; rccl_check.cpp compares where one is found. Included by ../gpu/nccl_types.h.
#pragma once

#include <cstddef>

#include "vendor.h"

namespace encore::gpu {

// NOLINTBEGIN(readability-identifier-naming): RCCL's own names
struct ncclComm;
using ncclComm_t = ncclComm*;

enum ncclResult_t : int { ncclSuccess = 0 };
enum ncclDataType_t : int { ncclFloat32 = 7, ncclBfloat16 = 9 };
enum ncclRedOp_t : int { ncclSum = 0 };

// Types of functions that are looked up in the library, not defined here.
ncclResult_t ncclAllGather(const void* send, void* receive, size_t send_count, ncclDataType_t type,
                           ncclComm_t communicator, hipStream_t stream);
ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t communicator, hipStream_t stream);
ncclResult_t ncclCommAbort(ncclComm_t communicator);
ncclResult_t ncclCommDestroy(ncclComm_t communicator);
ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error);
ncclResult_t ncclCommInitAll(ncclComm_t* communicators, int num_devices, const int* devices);
const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t communicator);
ncclResult_t ncclGroupEnd();
ncclResult_t ncclGroupStart();
// NOLINTEND(readability-identifier-naming)

}  // namespace encore::gpu
