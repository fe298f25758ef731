// Numbers of RCCL's interface, which are NCCL's.
#pragma once

namespace encore::standin {

enum RcclType : int {
  kRcclInt8 = 0,
  kRcclInt32 = 2,
  kRcclFloat16 = 6,
  kRcclFloat32 = 7,
  kRcclBfloat16 = 9,
};

enum RcclResult : int {
  kRcclSuccess = 0,
  kRcclUnhandledCudaError = 1,
  kRcclInternalError = 3,
  kRcclInvalidArgument = 4,
  kRcclInvalidUsage = 5,
};

inline constexpr int kRcclSum = 0;

}  // namespace encore::standin
