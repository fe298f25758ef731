#include "cuda_nccl.h"

#include "cuda_folder.h"

namespace encore::cuda {
namespace {

constexpr const char* kNames[] = {"libnccl.so.2"};

}  // namespace

Result<gpu::NcclFunctions> open_nccl() {
  return gpu::open_nccl(
      gpu::library_candidates(kNames, kCudaFolder, {"/lib64/", "/lib/"}), "NCCL",
      "NCCL cannot be opened, and parallel.tensor needs it on GPUs; install it, or name its folder "
      "in LD_LIBRARY_PATH or the CUDA folder in CUDA_PATH.");
}

}  // namespace encore::cuda
