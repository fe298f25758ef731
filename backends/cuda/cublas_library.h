// cuBLASLt, opened at run time: nothing links against it.
#pragma once

#include <cublasLt.h>

#include <span>
#include <string>
#include <vector>

#include "encore/status.h"

namespace encore::cuda {

// The functions of cuBLASLt that Encore calls, as its own header declares them.
struct CublasFunctions {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetStatusName) status_name = nullptr;
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulAlgoCheck) algorithm_check = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
};

// Where the library is looked for, in order: the loader's own search under each known name, then
// $CUDA_PATH and /usr/local/cuda.
std::vector<std::string> cublas_candidates();

// Opens the first candidate there is. It stays open for the life of the process.
// Errors: kUnavailable, naming what was tried and why each failed.
Result<CublasFunctions> open_cublas(std::span<const std::string> candidates);

// `what` failed, in the words of a log line.
Status cublas_status(const CublasFunctions& cublas, cublasStatus_t status, const std::string& what);

}  // namespace encore::cuda
