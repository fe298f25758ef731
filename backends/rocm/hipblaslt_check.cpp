// hipBLASLt's own header says the same as hipblaslt_types.h. Compiled where
// ENCORE_HIPBLASLT_INCLUDE is set.
#include <hip/hip_version.h>
#if HIP_VERSION_MAJOR == 5 && !defined(__HIP_PLATFORM_HCC__)
#define __HIP_PLATFORM_HCC__ 1  // how its header of that time calls AMD
#endif
#include <hipblaslt/hipblaslt.h>

#include "hipblaslt_types.h"
#include "same_call.h"

namespace encore::rocm {

#define ENCORE_SAME(name) \
  static_assert(SameCall<decltype(&::name), decltype(&encore::rocm::name)>::value, #name)
ENCORE_SAME(hipblasLtCreate);
ENCORE_SAME(hipblasLtDestroy);
ENCORE_SAME(hipblasLtGetVersion);
ENCORE_SAME(hipblasLtMatrixLayoutCreate);
ENCORE_SAME(hipblasLtMatrixLayoutDestroy);
ENCORE_SAME(hipblasLtMatmulDescCreate);
ENCORE_SAME(hipblasLtMatmulDescDestroy);
ENCORE_SAME(hipblasLtMatmulDescSetAttribute);
ENCORE_SAME(hipblasLtMatmulPreferenceCreate);
ENCORE_SAME(hipblasLtMatmulPreferenceDestroy);
ENCORE_SAME(hipblasLtMatmulPreferenceSetAttribute);
ENCORE_SAME(hipblasLtMatmulAlgoGetHeuristic);
ENCORE_SAME(hipblasLtMatmul);
#undef ENCORE_SAME

#define ENCORE_SAME(name) static_assert(int{::name} == int{encore::rocm::name}, #name)
ENCORE_SAME(HIPBLAS_STATUS_SUCCESS);
ENCORE_SAME(HIPBLAS_STATUS_ALLOC_FAILED);
ENCORE_SAME(HIPBLAS_STATUS_INVALID_VALUE);
ENCORE_SAME(HIPBLAS_STATUS_NOT_SUPPORTED);
ENCORE_SAME(HIPBLAS_STATUS_ARCH_MISMATCH);
ENCORE_SAME(HIPBLAS_OP_T);
#if HIP_VERSION_MAJOR >= 6
ENCORE_SAME(HIPBLAS_COMPUTE_32F);
ENCORE_SAME(HIP_R_32F);
ENCORE_SAME(HIP_R_16BF);
#else
ENCORE_SAME(HIPBLASLT_COMPUTE_F32);
ENCORE_SAME(HIPBLAS_R_32F);
ENCORE_SAME(HIPBLAS_R_16B);
#endif
ENCORE_SAME(HIPBLASLT_EPILOGUE_BIAS);
ENCORE_SAME(HIPBLASLT_MATMUL_DESC_TRANSA);
ENCORE_SAME(HIPBLASLT_MATMUL_DESC_EPILOGUE);
ENCORE_SAME(HIPBLASLT_MATMUL_DESC_BIAS_POINTER);
ENCORE_SAME(HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
ENCORE_SAME(HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
#undef ENCORE_SAME

static_assert(sizeof(::hipblasLtMatmulAlgo_t) == sizeof(encore::rocm::hipblasLtMatmulAlgo_t));
using Theirs = ::hipblasLtMatmulHeuristicResult_t;
using Ours = encore::rocm::hipblasLtMatmulHeuristicResult_t;
static_assert(sizeof(Theirs) == sizeof(Ours));
static_assert(offsetof(Theirs, workspaceSize) == offsetof(Ours, workspaceSize));
static_assert(offsetof(Theirs, state) == offsetof(Ours, state));

}  // namespace encore::rocm
