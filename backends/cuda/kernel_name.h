// Names of kernels as people call them.
#pragma once

#include <string>

namespace encore::cuda {

// From the linker's name, or one that is no C++ name:
//   encore's own          the function, without namespaces and template arguments: "decode_kernel"
//   cuBLAS, cuBLASLt      "cublas 128x256", the output tile; "cublas 64x8 splitK"; "cublas gemvx"
//   NCCL                  "nccl AllReduce_Sum_bf16_RING_LL"
std::string short_kernel_name(const char* name);

}  // namespace encore::cuda
