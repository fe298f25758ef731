// Of hipBLASLt's interface what Encore calls, declared here because few machines that build it have
// hipBLASLt's headers; hipblaslt_check.cpp compares where they are found. HIP 6 and 7 name types by
// other numbers than HIP 5 does, of which ROCm 5.7 has this interface; a build is for one of them.
// Compared by the compiler with the headers of ROCm 5.7.1, 6.0.0, 6.1.0 and 6.2.2; read beside 7's.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace encore::rocm {

// NOLINTBEGIN(readability-identifier-naming): hipBLASLt's own names
using hipblasLtHandle_t = void*;
struct hipblasLtMatmulDescOpaque_t;
struct hipblasLtMatrixLayoutOpaque_t;
struct hipblasLtMatmulPreferenceOpaque_t;
using hipblasLtMatmulDesc_t = hipblasLtMatmulDescOpaque_t*;
using hipblasLtMatrixLayout_t = hipblasLtMatrixLayoutOpaque_t*;
using hipblasLtMatmulPreference_t = hipblasLtMatmulPreferenceOpaque_t*;

enum hipblasStatus_t : int {
  HIPBLAS_STATUS_SUCCESS = 0,
  HIPBLAS_STATUS_ALLOC_FAILED = 2,
  HIPBLAS_STATUS_INVALID_VALUE = 3,
  HIPBLAS_STATUS_NOT_SUPPORTED = 7,
  HIPBLAS_STATUS_ARCH_MISMATCH = 8,
};
enum hipblasOperation_t : int { HIPBLAS_OP_T = 112 };
#if HIP_VERSION_MAJOR >= 6
enum hipblasComputeType_t : int { HIPBLAS_COMPUTE_32F = 2 };
enum hipblasLtDataType : int { HIP_R_32F = 0, HIP_R_16BF = 14 };
#else
enum hipblasLtComputeType_t : int { HIPBLASLT_COMPUTE_F32 = 300 };
enum hipblasDatatype_t : int { HIPBLAS_R_32F = 151, HIPBLAS_R_16B = 168 };
using hipblasComputeType_t = hipblasLtComputeType_t;
using hipblasLtDataType = hipblasDatatype_t;
#endif
enum hipblasLtEpilogue_t : int { HIPBLASLT_EPILOGUE_BIAS = 4 };
enum hipblasLtMatmulDescAttributes_t : int {
  HIPBLASLT_MATMUL_DESC_TRANSA = 0,
  HIPBLASLT_MATMUL_DESC_EPILOGUE = 2,
  HIPBLASLT_MATMUL_DESC_BIAS_POINTER = 3,
  HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 4,
};
enum hipblasLtMatmulPreferenceAttributes_t : int { HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1 };

struct hipblasLtMatmulAlgo_t {
  uint8_t data[16] = {};
  size_t max_workspace_bytes = 0;
};
struct hipblasLtMatmulHeuristicResult_t {
  hipblasLtMatmulAlgo_t algo;
  size_t workspaceSize = 0;
  hipblasStatus_t state = HIPBLAS_STATUS_SUCCESS;
  float wavesCount = 1.0F;
  int reserved[4] = {};
};

// Types of functions that are looked up in the library, not defined here.
hipblasStatus_t hipblasLtCreate(hipblasLtHandle_t* handle);
hipblasStatus_t hipblasLtDestroy(hipblasLtHandle_t handle);
hipblasStatus_t hipblasLtGetVersion(hipblasLtHandle_t handle, int* version);
hipblasStatus_t hipblasLtMatrixLayoutCreate(hipblasLtMatrixLayout_t* layout, hipblasLtDataType type,
                                            uint64_t rows, uint64_t columns, int64_t stride);
hipblasStatus_t hipblasLtMatrixLayoutDestroy(hipblasLtMatrixLayout_t layout);
hipblasStatus_t hipblasLtMatmulDescCreate(hipblasLtMatmulDesc_t* desc, hipblasComputeType_t compute,
                                          hipblasLtDataType scale);
hipblasStatus_t hipblasLtMatmulDescDestroy(hipblasLtMatmulDesc_t desc);
hipblasStatus_t hipblasLtMatmulDescSetAttribute(hipblasLtMatmulDesc_t desc,
                                                hipblasLtMatmulDescAttributes_t attribute,
                                                const void* value, size_t bytes);
hipblasStatus_t hipblasLtMatmulPreferenceCreate(hipblasLtMatmulPreference_t* preference);
hipblasStatus_t hipblasLtMatmulPreferenceDestroy(hipblasLtMatmulPreference_t preference);
hipblasStatus_t hipblasLtMatmulPreferenceSetAttribute(
    hipblasLtMatmulPreference_t preference, hipblasLtMatmulPreferenceAttributes_t attribute,
    const void* value, size_t bytes);
hipblasStatus_t hipblasLtMatmulAlgoGetHeuristic(
    hipblasLtHandle_t handle, hipblasLtMatmulDesc_t desc, hipblasLtMatrixLayout_t a,
    hipblasLtMatrixLayout_t b, hipblasLtMatrixLayout_t c, hipblasLtMatrixLayout_t d,
    hipblasLtMatmulPreference_t preference, int wanted, hipblasLtMatmulHeuristicResult_t results[],
    int* found);
hipblasStatus_t hipblasLtMatmul(hipblasLtHandle_t handle, hipblasLtMatmulDesc_t desc,
                                const void* alpha, const void* a, hipblasLtMatrixLayout_t a_layout,
                                const void* b, hipblasLtMatrixLayout_t b_layout, const void* beta,
                                const void* c, hipblasLtMatrixLayout_t c_layout, void* d,
                                hipblasLtMatrixLayout_t d_layout,
                                const hipblasLtMatmulAlgo_t* algorithm, void* workspace,
                                size_t workspace_bytes, hipStream_t stream);
// NOLINTEND(readability-identifier-naming)

#if HIP_VERSION_MAJOR >= 6
inline constexpr hipblasLtDataType kHipblasltF32 = HIP_R_32F;
inline constexpr hipblasLtDataType kHipblasltBf16 = HIP_R_16BF;
inline constexpr hipblasComputeType_t kHipblasltSumsF32 = HIPBLAS_COMPUTE_32F;
#else
inline constexpr hipblasLtDataType kHipblasltF32 = HIPBLAS_R_32F;
inline constexpr hipblasLtDataType kHipblasltBf16 = HIPBLAS_R_16B;
inline constexpr hipblasComputeType_t kHipblasltSumsF32 = HIPBLASLT_COMPUTE_F32;
#endif

}  // namespace encore::rocm
