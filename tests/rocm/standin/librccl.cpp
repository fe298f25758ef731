// librccl.so.1: RCCL's functions, as its documentation has them, over the stand-in's run-time.
#include <hip/hip_runtime_api.h>

#include "collective_bridge.h"
#include "rccl_numbers.h"

namespace {

thread_local int in_group = 0;

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int ncclGetVersion(int* version) {
  constexpr int kVersion = 21804;  // 2.18.4
  *version = kVersion;
  return encore_standin_call("ncclGetVersion");
}

__attribute__((visibility("default"))) int ncclCommInitAll(void** communicators, int num_ranks,
                                                           const int* devices) {
  return encore_standin_communicators("ncclCommInitAll", num_ranks, devices, communicators);
}

__attribute__((visibility("default"))) int ncclCommDestroy(void* communicator) {
  return encore_standin_end_communicator("ncclCommDestroy", communicator, 0);
}

__attribute__((visibility("default"))) int ncclCommAbort(void* communicator) {
  return encore_standin_end_communicator("ncclCommAbort", communicator, 1);
}

__attribute__((visibility("default"))) int ncclCommGetAsyncError(void*, int* error) {
  // A failure that a test plans for this call is one that it tells of.
  *error = encore_standin_call("ncclCommGetAsyncError");
  return encore::standin::kRcclSuccess;
}

__attribute__((visibility("default"))) int ncclAllReduce(const void* send, void* receive,
                                                         size_t count, int type, int reduction,
                                                         void* communicator, hipStream_t stream) {
  if (reduction != encore::standin::kRcclSum) return encore::standin::kRcclInvalidArgument;
  return encore_standin_collective("ncclAllReduce", communicator, 0, send, receive, count, type,
                                   stream);
}

__attribute__((visibility("default"))) int ncclAllGather(const void* send, void* receive,
                                                         size_t count, int type, void* communicator,
                                                         hipStream_t stream) {
  return encore_standin_collective("ncclAllGather", communicator, 1, send, receive, count, type,
                                   stream);
}

// Calls of a group are enqueued one by one: none of them waits.
__attribute__((visibility("default"))) int ncclGroupStart() {
  ++in_group;
  return encore_standin_call("ncclGroupStart");
}
__attribute__((visibility("default"))) int ncclGroupEnd() {
  if (in_group == 0) return encore::standin::kRcclInvalidUsage;
  --in_group;
  return encore_standin_call("ncclGroupEnd");
}

__attribute__((visibility("default"))) const char* ncclGetErrorString(int result) {
  switch (result) {
    case encore::standin::kRcclSuccess:
      return "no error";
    case encore::standin::kRcclUnhandledCudaError:
      return "unhandled cuda error";
    case encore::standin::kRcclInvalidArgument:
      return "invalid argument";
    case encore::standin::kRcclInvalidUsage:
      return "invalid usage";
    default:
      return "internal error";
  }
}
__attribute__((visibility("default"))) const char* ncclGetLastError(void*) { return ""; }
}
