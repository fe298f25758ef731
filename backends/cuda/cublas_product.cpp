#include "cublas_product.h"

#include <cstring>
#include <optional>
#include <span>
#include <utility>

namespace encore::cuda {
namespace {

// What callers promise of every operand.
constexpr uint32_t kAlignment = 16;

gpu::AlgorithmBytes to_bytes(const cublasLtMatmulAlgo_t& algorithm) {
  const auto* begin = reinterpret_cast<const std::byte*>(&algorithm);
  return {begin, begin + sizeof(algorithm)};
}

// Nothing if the size is not an algorithm's. What the bytes say is checked by the library.
std::optional<cublasLtMatmulAlgo_t> from_bytes(const gpu::AlgorithmBytes& bytes) {
  if (bytes.size() != sizeof(cublasLtMatmulAlgo_t)) return {};
  cublasLtMatmulAlgo_t algorithm;
  std::memcpy(&algorithm, bytes.data(), sizeof(algorithm));
  return algorithm;
}

}  // namespace

Result<std::unique_ptr<gpu::LibraryProduct>> CublasProduct::create(const CublasFunctions& cublas,
                                                                   cublasLtHandle_t handle,
                                                                   const gpu::ProductShape& shape) {
  std::unique_ptr<CublasProduct> product(new CublasProduct(cublas, handle, shape));
  ENCORE_RETURN_IF_ERROR(product->describe());
  return std::unique_ptr<gpu::LibraryProduct>(std::move(product));
}

template <typename T>
Status CublasProduct::set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
  const cublasStatus_t status = cublas_->desc_set(desc_.get(), attribute, &value, sizeof(value));
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return cublas_status(*cublas_, status, "describing " + name());
}

// The library's matrices are column-major, so a row-major matrix is its own transpose there and
// y = x w^T becomes y^T [n, m] = op(w) x^T, where w is stored as [k, n] and op transposes.
Status CublasProduct::describe() {
  cublasLtMatmulDesc_t desc = nullptr;
  ENCORE_RETURN_IF_ERROR(cublas_status(*cublas_,
                                       cublas_->desc_create(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                                       "describing " + name()));
  desc_ = {desc, {cublas_->desc_destroy}};
  ENCORE_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T));
  if (shape_.bias) {
    ENCORE_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
    // Before a run gives the real one, its value stands for the alignment to expect.
    const auto stand_in = static_cast<uintptr_t>(kAlignment);
    ENCORE_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, stand_in));
  }
  const bool f32 = shape_.output == gpu::Element::kF32;
  ENCORE_RETURN_IF_ERROR(make_layout(CUDA_R_16BF, shape_.k, shape_.n, &w_));
  ENCORE_RETURN_IF_ERROR(make_layout(CUDA_R_16BF, shape_.k, shape_.m, &x_));
  return make_layout(f32 ? CUDA_R_32F : CUDA_R_16BF, shape_.n, shape_.m, &y_);
}

Status CublasProduct::make_layout(cudaDataType_t type, int64_t rows, int64_t columns,
                                  CublasObject<cublasLtMatrixLayoutOpaque_t>* layout) {
  cublasLtMatrixLayout_t made = nullptr;
  const cublasStatus_t status = cublas_->layout_create(&made, type, static_cast<uint64_t>(rows),
                                                       static_cast<uint64_t>(columns), rows);
  ENCORE_RETURN_IF_ERROR(cublas_status(*cublas_, status, "describing " + name()));
  *layout = {made, {cublas_->layout_destroy}};
  return {};
}

Result<std::vector<gpu::AlgorithmBytes>> CublasProduct::candidates(int64_t workspace_bytes,
                                                                   int count) const {
  const std::string what = "choosing an algorithm for " + name();
  cublasLtMatmulPreference_t made = nullptr;
  ENCORE_RETURN_IF_ERROR(cublas_status(*cublas_, cublas_->preference_create(&made), what));
  const CublasObject<cublasLtMatmulPreferenceOpaque_t> preference(made,
                                                                  {cublas_->preference_destroy});
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    if (status != CUBLAS_STATUS_SUCCESS) return;
    status = cublas_->preference_set(made, attribute, &value, sizeof(value));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(workspace_bytes));
  // Partial sums of a split k go through the workspace in f32. The other schemes round them to the
  // output's type, or add them in the order in which they come.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    prefer(attribute, kAlignment);
  }
  ENCORE_RETURN_IF_ERROR(cublas_status(*cublas_, status, what));

  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(count));
  int found = 0;
  status = cublas_->heuristic(handle_, desc_.get(), w_.get(), x_.get(), y_.get(), y_.get(), made,
                              count, results.data(), &found);
  ENCORE_RETURN_IF_ERROR(cublas_status(*cublas_, status, what));
  std::vector<gpu::AlgorithmBytes> algorithms;
  for (const auto& result : std::span(results).first(static_cast<size_t>(found))) {
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(to_bytes(result.algo));
  }
  if (algorithms.empty()) return unimplemented(what + ": the library has none");
  return algorithms;
}

bool CublasProduct::serves(const gpu::AlgorithmBytes& bytes, int64_t workspace_bytes) const {
  const std::optional<cublasLtMatmulAlgo_t> algorithm = from_bytes(bytes);
  if (!algorithm) return false;
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = cublas_->algorithm_check(handle_, desc_.get(), w_.get(), x_.get(),
                                                         y_.get(), y_.get(), &*algorithm, &result);
  return status == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= static_cast<size_t>(workspace_bytes);
}

Status CublasProduct::run(const gpu::AlgorithmBytes& bytes, const gpu::ProductOperands& operands,
                          const gpu::Workspace& workspace, cudaStream_t stream) {
  const std::optional<cublasLtMatmulAlgo_t> algorithm = from_bytes(bytes);
  if (!algorithm) return invalid_argument("running " + name() + ": that is no algorithm");
  if (shape_.bias) {
    ENCORE_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias));
  }
  const float alpha = 1.0F;
  const float beta = shape_.accumulate ? 1.0F : 0.0F;
  const cublasStatus_t status =
      cublas_->matmul(handle_, desc_.get(), &alpha, operands.w, w_.get(), operands.x, x_.get(),
                      &beta, operands.y, y_.get(), operands.y, y_.get(), &*algorithm,
                      workspace.data, static_cast<size_t>(workspace.bytes), stream);
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return cublas_status(*cublas_, status, "running " + name());
}

}  // namespace encore::cuda
