// rocBLAS's own header says the same as rocblas_types.h. Compiled where ENCORE_ROCBLAS_INCLUDE is
// set.
#include <rocblas/rocblas.h>

#undef rocblas_gemm_ex

#include "rocblas_types.h"
#include "same_call.h"

namespace encore::rocm {

#define ENCORE_SAME(name) \
  static_assert(SameCall<decltype(&::name), decltype(&encore::rocm::name)>::value, #name)

ENCORE_SAME(rocblas_create_handle);
ENCORE_SAME(rocblas_destroy_handle);
ENCORE_SAME(rocblas_set_stream);
ENCORE_SAME(rocblas_set_workspace);
ENCORE_SAME(rocblas_set_atomics_mode);
ENCORE_SAME(rocblas_status_to_string);
ENCORE_SAME(rocblas_get_version_string);
ENCORE_SAME(rocblas_gemm_ex);
#undef ENCORE_SAME

#define ENCORE_SAME(name) static_assert(int{::name} == int{encore::rocm::name}, #name)
ENCORE_SAME(rocblas_status_success);
ENCORE_SAME(rocblas_status_not_implemented);
ENCORE_SAME(rocblas_status_memory_error);
ENCORE_SAME(rocblas_operation_none);
ENCORE_SAME(rocblas_operation_transpose);
ENCORE_SAME(rocblas_datatype_f32_r);
ENCORE_SAME(rocblas_datatype_bf16_r);
ENCORE_SAME(rocblas_gemm_algo_standard);
ENCORE_SAME(rocblas_atomics_not_allowed);
#undef ENCORE_SAME

}  // namespace encore::rocm
