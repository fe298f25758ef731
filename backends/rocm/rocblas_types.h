// Of rocBLAS's interface what Encore calls, declared here because few machines that build it have
// rocBLAS's header; rocblas_check.cpp compares where one is found. The same since rocBLAS 2.44
// (ROCm 5.2).
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace encore::rocm {

// NOLINTBEGIN(readability-identifier-naming): rocBLAS's own names
struct _rocblas_handle;
using rocblas_handle = _rocblas_handle*;
using rocblas_int = int32_t;

enum rocblas_status : int {
  rocblas_status_success = 0,
  rocblas_status_not_implemented = 2,
  rocblas_status_memory_error = 5,
};
enum rocblas_operation : int { rocblas_operation_none = 111, rocblas_operation_transpose = 112 };
enum rocblas_datatype : int { rocblas_datatype_f32_r = 151, rocblas_datatype_bf16_r = 168 };
enum rocblas_gemm_algo : int { rocblas_gemm_algo_standard = 0 };
enum rocblas_atomics_mode : int { rocblas_atomics_not_allowed = 0 };

// Types of functions that are looked up in the library, not defined here.
rocblas_status rocblas_create_handle(rocblas_handle* handle);
rocblas_status rocblas_destroy_handle(rocblas_handle handle);
rocblas_status rocblas_set_stream(rocblas_handle handle, hipStream_t stream);
rocblas_status rocblas_set_workspace(rocblas_handle handle, void* data, size_t bytes);
rocblas_status rocblas_set_atomics_mode(rocblas_handle handle, rocblas_atomics_mode mode);
const char* rocblas_status_to_string(rocblas_status status);
rocblas_status rocblas_get_version_string(char* text, size_t length);
rocblas_status rocblas_gemm_ex(rocblas_handle handle, rocblas_operation a_operation,
                               rocblas_operation b_operation, rocblas_int m, rocblas_int n,
                               rocblas_int k, const void* alpha, const void* a,
                               rocblas_datatype a_type, rocblas_int a_stride, const void* b,
                               rocblas_datatype b_type, rocblas_int b_stride, const void* beta,
                               const void* c, rocblas_datatype c_type, rocblas_int c_stride,
                               void* d, rocblas_datatype d_type, rocblas_int d_stride,
                               rocblas_datatype compute_type, rocblas_gemm_algo algorithm,
                               int32_t solution, uint32_t flags);
// NOLINTEND(readability-identifier-naming)

}  // namespace encore::rocm
