// librocblas.so.0: of rocBLAS what the plugin calls, by rocBLAS's documentation, over the
// stand-in's run-time.
#include <hip/hip_runtime_api.h>

#include <cstdio>

#include "collective_bridge.h"
#include "product.h"
#include "product_bridge.h"

namespace {

enum Status : int {
  kSuccess = 0,
  kInvalidHandle = 1,
  kNotImplemented = 2,
  kInvalidPointer = 3,
  kInvalidSize = 4,
  kInternalError = 6,
};
constexpr int kTranspose = 112;
constexpr int kNoTranspose = 111;
constexpr int kF32 = 151;
constexpr int kBf16 = 168;

struct Handle {
  hipStream_t stream = nullptr;
};

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int rocblas_create_handle(Handle** handle) {
  const int failure = encore_standin_call("rocblas_create_handle");
  if (failure == 0) *handle = new Handle;
  return failure;
}

__attribute__((visibility("default"))) int rocblas_destroy_handle(Handle* handle) {
  delete handle;
  return encore_standin_call("rocblas_destroy_handle");
}

__attribute__((visibility("default"))) int rocblas_set_stream(Handle* handle, hipStream_t stream) {
  if (handle == nullptr) return kInvalidHandle;
  handle->stream = stream;
  return encore_standin_call("rocblas_set_stream");
}

__attribute__((visibility("default"))) int rocblas_set_workspace(Handle* handle, void*, size_t) {
  return handle == nullptr ? static_cast<int>(kInvalidHandle)
                           : encore_standin_call("rocblas_set_workspace");
}

__attribute__((visibility("default"))) int rocblas_set_atomics_mode(Handle* handle, int) {
  return handle == nullptr ? static_cast<int>(kInvalidHandle)
                           : encore_standin_call("rocblas_set_atomics_mode");
}

__attribute__((visibility("default"))) const char* rocblas_status_to_string(int status) {
  switch (status) {
    case kSuccess:
      return "rocblas_status_success";
    case kInvalidHandle:
      return "rocblas_status_invalid_handle";
    case kNotImplemented:
      return "rocblas_status_not_implemented";
    case kInvalidPointer:
      return "rocblas_status_invalid_pointer";
    case kInvalidSize:
      return "rocblas_status_invalid_size";
    default:
      return "rocblas_status_internal_error";
  }
}

__attribute__((visibility("default"))) int rocblas_get_version_string(char* text, size_t length) {
  std::snprintf(text, length, "2.44.0.stand-in");
  return kSuccess;
}

__attribute__((visibility("default"))) int rocblas_gemm_ex(
    Handle* handle, int a_operation, int b_operation, int m, int n, int k, const void* alpha,
    const void* a, int a_type, int a_stride, const void* b, int b_type, int b_stride,
    const void* beta, const void* c, int c_type, int c_stride, void* d, int d_type, int d_stride,
    int compute_type, int, int32_t, uint32_t) {
  if (handle == nullptr) return kInvalidHandle;
  if (m < 0 || n < 0 || k < 0 || a_stride < k || b_stride < k || d_stride < m) return kInvalidSize;
  if (alpha == nullptr || beta == nullptr) return kInvalidPointer;
  const bool known = a_operation == kTranspose && b_operation == kNoTranspose && a_type == kBf16 &&
                     b_type == kBf16 && c == d && c_type == d_type && c_stride == d_stride &&
                     (d_type == kF32 || d_type == kBf16) && compute_type == kF32 &&
                     *static_cast<const float*>(alpha) == 1.0F;
  if (!known) return kNotImplemented;
  const encore::standin::ProductArgs args{m,
                                          n,
                                          k,
                                          static_cast<const uint16_t*>(a),
                                          a_stride,
                                          static_cast<const uint16_t*>(b),
                                          b_stride,
                                          *static_cast<const float*>(beta),
                                          d,
                                          d_stride,
                                          d_type == kF32};
  return encore_standin_product("rocblas_gemm_ex", &args, handle->stream) == 0 ? kSuccess
                                                                               : kInternalError;
}
}
