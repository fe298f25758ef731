#include "cublas_library.h"

#include "cuda_folder.h"

namespace encore::cuda {
namespace {

// Newest first. The functions used have been the same since 12.
constexpr const char* kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};

// Fills the table.
void find_all(gpu::Symbols& symbols, CublasFunctions& functions) {
  symbols.find("cublasLtCreate", &functions.create);
  symbols.find("cublasLtDestroy", &functions.destroy);
  symbols.find("cublasLtGetStatusName", &functions.status_name);
  symbols.find("cublasLtGetVersion", &functions.version);
  symbols.find("cublasLtMatmul", &functions.matmul);
  symbols.find("cublasLtMatmulAlgoCheck", &functions.algorithm_check);
  symbols.find("cublasLtMatmulAlgoGetHeuristic", &functions.heuristic);
  symbols.find("cublasLtMatmulDescCreate", &functions.desc_create);
  symbols.find("cublasLtMatmulDescDestroy", &functions.desc_destroy);
  symbols.find("cublasLtMatmulDescSetAttribute", &functions.desc_set);
  symbols.find("cublasLtMatmulPreferenceCreate", &functions.preference_create);
  symbols.find("cublasLtMatmulPreferenceDestroy", &functions.preference_destroy);
  symbols.find("cublasLtMatmulPreferenceSetAttribute", &functions.preference_set);
  symbols.find("cublasLtMatrixLayoutCreate", &functions.layout_create);
  symbols.find("cublasLtMatrixLayoutDestroy", &functions.layout_destroy);
}

}  // namespace

std::vector<std::string> cublas_candidates() {
  return gpu::library_candidates(kNames, kCudaFolder, {"/lib64/"});
}

Result<CublasFunctions> open_cublas(std::span<const std::string> candidates) {
  return gpu::open_functions<CublasFunctions>(
      candidates, find_all,
      "cuBLASLt cannot be opened; install it, or name its folder in LD_LIBRARY_PATH or the CUDA "
      "folder in CUDA_PATH.");
}

Status cublas_status(const CublasFunctions& cublas, cublasStatus_t status,
                     const std::string& what) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  const std::string message = what + ": " + cublas.status_name(status);
  switch (status) {
    case CUBLAS_STATUS_ALLOC_FAILED:
      return out_of_memory(message);
    case CUBLAS_STATUS_NOT_SUPPORTED:
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return unimplemented(message);
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return unavailable(message);
    default:
      return internal_error(message);
  }
}

}  // namespace encore::cuda
