#include "rocm_rccl.h"

#include "rocm_folder.h"

namespace encore::rocm {
namespace {

constexpr const char* kNames[] = {"librccl.so.1"};

}  // namespace

Result<gpu::NcclFunctions> open_rccl() {
  return gpu::open_nccl(
      gpu::library_candidates(kNames, kRocmFolder, {"/lib/", "/lib64/"}), "RCCL",
      "RCCL cannot be opened, and parallel.tensor needs it on GPUs; install it, or name its folder "
      "in LD_LIBRARY_PATH or the ROCm folder in ROCM_PATH.");
}

}  // namespace encore::rocm
