#include "rocblas.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gpu_status.h"

namespace encore::rocm {
namespace {

constexpr int64_t kLibraryBytes = int64_t{64} << 20;  // what rocBLAS takes at most by itself
constexpr int32_t kMaxOnes = 8192;                    // rows whose bias is laid out at once
constexpr uint16_t kOne = 0x3F80;                     // in bf16

}  // namespace

Result<std::unique_ptr<Rocblas>> Rocblas::create() {
  ENCORE_ASSIGN_OR_RETURN(const RocblasFunctions rocblas, open_rocblas());
  rocblas_handle handle = nullptr;
  ENCORE_RETURN_IF_ERROR(rocblas_error(rocblas, rocblas.create(&handle), "starting rocBLAS"));
  std::unique_ptr<Rocblas> made(new Rocblas(rocblas, handle));
  // The same call gives the same bits every time.
  ENCORE_RETURN_IF_ERROR(
      rocblas_error(rocblas, rocblas.set_atomics_mode(handle, rocblas_atomics_not_allowed),
                    "asking rocBLAS for the same bits every time"));
  return made;
}

Rocblas::~Rocblas() { static_cast<void>(rocblas_.destroy(handle_)); }

int64_t Rocblas::workspace_bytes() const { return kLibraryBytes + kMaxOnes * sizeof(uint16_t); }

Status Rocblas::prepare(gpuStream_t stream) {
  if (prepared_) return {};
  ENCORE_RETURN_IF_ERROR(rocblas_error(
      rocblas_, rocblas_.set_workspace(handle_, workspace_, kLibraryBytes), "giving a workspace"));
  const std::vector<uint16_t> ones(kMaxOnes, kOne);
  ENCORE_RETURN_IF_ERROR(gpu::gpu_status(
      gpuMemcpyAsync(static_cast<std::byte*>(workspace_) + kLibraryBytes, ones.data(),
                     ones.size() * sizeof(uint16_t), gpuMemcpyHostToDevice, stream),
      "copying ones"));
  ENCORE_RETURN_IF_ERROR(gpu::gpu_status(gpuStreamSynchronize(stream), "copying ones"));
  prepared_ = true;
  return {};
}

// The library's matrices are column-major, so a row-major matrix is its own transpose there and
// y = x w^T becomes y^T [n, m] = op(w) x^T, where w is stored as [k, n] and op transposes.
Status Rocblas::run(const gpu::ProductShape& shape, const gpu::ProductOperands& operands,
                    float beta, gpuStream_t stream) {
  const float alpha = 1.0F;
  const rocblas_datatype type =
      shape.output == gpu::Element::kF32 ? rocblas_datatype_f32_r : rocblas_datatype_bf16_r;
  ENCORE_RETURN_IF_ERROR(
      rocblas_error(rocblas_, rocblas_.set_stream(handle_, stream), "choosing a stream"));
  return rocblas_error(
      rocblas_,
      rocblas_.multiply(handle_, rocblas_operation_transpose, rocblas_operation_none, shape.n,
                        shape.m, shape.k, &alpha, operands.w, rocblas_datatype_bf16_r, shape.k,
                        operands.x, rocblas_datatype_bf16_r, shape.k, &beta, operands.y, type,
                        shape.n, operands.y, type, shape.n, rocblas_datatype_f32_r,
                        rocblas_gemm_algo_standard, 0, 0),
      "running " + gpu::name_of(shape));
}

Status Rocblas::multiply(const gpu::ProductShape& shape, const gpu::ProductOperands& operands,
                         void* stream) {
  ENCORE_RETURN_IF_ERROR(gpu::check_product(shape, operands));
  if (workspace_ == nullptr) {
    return failed_precondition("products need a workspace; call set_workspace() first");
  }
  auto* const queue = static_cast<gpuStream_t>(stream);
  float beta = shape.accumulate ? 1.0F : 0.0F;
  if (shape.bias) {
    if (!prepared_) return unimplemented("a product with bias before any was tuned");
    gpu::ProductShape outer{0, shape.n, 1};
    gpu::ProductOperands terms;
    terms.x = static_cast<std::byte*>(workspace_) + kLibraryBytes;
    terms.w = operands.bias;
    for (int32_t row = 0; row < shape.m; row += kMaxOnes) {
      outer.m = std::min(kMaxOnes, shape.m - row);
      terms.y = static_cast<uint16_t*>(operands.y) + int64_t{row} * shape.n;
      ENCORE_RETURN_IF_ERROR(run(outer, terms, beta, queue));
    }
    beta = 1.0F;
  }
  return run(shape, operands, beta, queue);
}

Status Rocblas::tune(const gpu::ProductShape& shape, const gpu::ProductOperands& operands,
                     std::span<const void* const>, void* stream) {
  if (workspace_ == nullptr) {
    return failed_precondition("products need a workspace; call set_workspace() first");
  }
  auto* const queue = static_cast<gpuStream_t>(stream);
  hipStreamCaptureStatus capture = hipStreamCaptureStatusNone;
  ENCORE_RETURN_IF_ERROR(
      gpu::gpu_status(hipStreamIsCapturing(queue, &capture), "asking about a stream"));
  if (capture != hipStreamCaptureStatusNone) {
    return failed_precondition("products cannot be tuned while their stream is captured");
  }
  ENCORE_RETURN_IF_ERROR(prepare(queue));
  ENCORE_RETURN_IF_ERROR(multiply(shape, operands, stream));
  return gpu::gpu_status(gpuStreamSynchronize(queue), "running " + gpu::name_of(shape));
}

}  // namespace encore::rocm
