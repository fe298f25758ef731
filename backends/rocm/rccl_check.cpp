// RCCL's own header says the same as rccl_types.h. Compiled where ENCORE_RCCL_INCLUDE is set.
#include <rccl/rccl.h>

#include "rccl_types.h"
#include "same_call.h"

namespace encore::rocm {

#define ENCORE_SAME(name) \
  static_assert(SameCall<decltype(&::name), decltype(&gpu::name)>::value, #name)

ENCORE_SAME(ncclAllGather);
ENCORE_SAME(ncclAllReduce);
ENCORE_SAME(ncclCommAbort);
ENCORE_SAME(ncclCommDestroy);
ENCORE_SAME(ncclCommGetAsyncError);
ENCORE_SAME(ncclCommInitAll);
ENCORE_SAME(ncclGetErrorString);
ENCORE_SAME(ncclGetLastError);
ENCORE_SAME(ncclGroupEnd);
ENCORE_SAME(ncclGroupStart);
#undef ENCORE_SAME

static_assert(int{::ncclSuccess} == int{gpu::ncclSuccess});
static_assert(int{::ncclFloat32} == int{gpu::ncclFloat32});
static_assert(int{::ncclBfloat16} == int{gpu::ncclBfloat16});
static_assert(int{::ncclSum} == int{gpu::ncclSum});

}  // namespace encore::rocm
