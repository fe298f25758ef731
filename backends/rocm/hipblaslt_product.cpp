#include "hipblaslt_product.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

namespace encore::rocm {
namespace {

constexpr int kListed = 32;  // algorithms among which one is looked for

gpu::AlgorithmBytes to_bytes(const hipblasLtMatmulAlgo_t& algorithm) {
  const auto* begin = reinterpret_cast<const std::byte*>(&algorithm);
  return {begin, begin + sizeof(algorithm)};
}

// Nothing if the size is not an algorithm's.
std::optional<hipblasLtMatmulAlgo_t> from_bytes(const gpu::AlgorithmBytes& bytes) {
  if (bytes.size() != sizeof(hipblasLtMatmulAlgo_t)) return {};
  hipblasLtMatmulAlgo_t algorithm;
  std::memcpy(&algorithm, bytes.data(), sizeof(algorithm));
  return algorithm;
}

}  // namespace

Result<std::unique_ptr<gpu::LibraryProduct>> HipblasltProduct::create(
    const HipblasltFunctions& hipblaslt, hipblasLtHandle_t handle, const gpu::ProductShape& shape) {
  std::unique_ptr<HipblasltProduct> product(new HipblasltProduct(hipblaslt, handle, shape));
  ENCORE_RETURN_IF_ERROR(product->describe());
  return std::unique_ptr<gpu::LibraryProduct>(std::move(product));
}

template <typename T>
Status HipblasltProduct::set(hipblasLtMatmulDescAttributes_t attribute, const T& value) {
  return hipblaslt_status(hipblaslt_->desc_set(desc_.get(), attribute, &value, sizeof(value)),
                          "describing " + name());
}

// The library's matrices are column-major, so a row-major matrix is its own transpose there and
// y = x w^T becomes y^T [n, m] = op(w) x^T, where w is stored as [k, n] and op transposes.
Status HipblasltProduct::describe() {
  hipblasLtMatmulDesc_t desc = nullptr;
  ENCORE_RETURN_IF_ERROR(hipblaslt_status(
      hipblaslt_->desc_create(&desc, kHipblasltSumsF32, kHipblasltF32), "describing " + name()));
  desc_ = {desc, {hipblaslt_->desc_destroy}};
  ENCORE_RETURN_IF_ERROR(set(HIPBLASLT_MATMUL_DESC_TRANSA, HIPBLAS_OP_T));
  if (shape_.bias) {
    ENCORE_RETURN_IF_ERROR(set(HIPBLASLT_MATMUL_DESC_EPILOGUE, HIPBLASLT_EPILOGUE_BIAS));
    ENCORE_RETURN_IF_ERROR(set(HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, kHipblasltBf16));
    // Algorithms are listed for a bias that is there; a run gives the real one.
    constexpr uintptr_t kStandIn = 16;
    ENCORE_RETURN_IF_ERROR(set(HIPBLASLT_MATMUL_DESC_BIAS_POINTER, kStandIn));
  }
  const bool f32 = shape_.output == gpu::Element::kF32;
  ENCORE_RETURN_IF_ERROR(make_layout(kHipblasltBf16, shape_.k, shape_.n, &w_));
  ENCORE_RETURN_IF_ERROR(make_layout(kHipblasltBf16, shape_.k, shape_.m, &x_));
  return make_layout(f32 ? kHipblasltF32 : kHipblasltBf16, shape_.n, shape_.m, &y_);
}

Status HipblasltProduct::make_layout(hipblasLtDataType type, int64_t rows, int64_t columns,
                                     HipblasltObject<hipblasLtMatrixLayoutOpaque_t>* layout) {
  hipblasLtMatrixLayout_t made = nullptr;
  ENCORE_RETURN_IF_ERROR(
      hipblaslt_status(hipblaslt_->layout_create(&made, type, static_cast<uint64_t>(rows),
                                                 static_cast<uint64_t>(columns), rows),
                       "describing " + name()));
  *layout = {made, {hipblaslt_->layout_destroy}};
  return {};
}

Result<std::vector<gpu::AlgorithmBytes>> HipblasltProduct::candidates(int64_t workspace_bytes,
                                                                      int count) const {
  const std::string what = "choosing an algorithm for " + name();
  hipblasLtMatmulPreference_t made = nullptr;
  ENCORE_RETURN_IF_ERROR(hipblaslt_status(hipblaslt_->preference_create(&made), what));
  const HipblasltObject<hipblasLtMatmulPreferenceOpaque_t> preference(
      made, {hipblaslt_->preference_destroy});
  const auto limit = static_cast<uint64_t>(workspace_bytes);
  ENCORE_RETURN_IF_ERROR(
      hipblaslt_status(hipblaslt_->preference_set(made, HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                  &limit, sizeof(limit)),
                       what));
  std::vector<hipblasLtMatmulHeuristicResult_t> results(static_cast<size_t>(count));
  int found = 0;
  ENCORE_RETURN_IF_ERROR(
      hipblaslt_status(hipblaslt_->heuristic(handle_, desc_.get(), w_.get(), x_.get(), y_.get(),
                                             y_.get(), made, count, results.data(), &found),
                       what));
  std::vector<gpu::AlgorithmBytes> algorithms;
  for (const auto& result : std::span(results).first(static_cast<size_t>(found))) {
    if (result.state == HIPBLAS_STATUS_SUCCESS && result.workspaceSize <= limit) {
      algorithms.push_back(to_bytes(result.algo));
    }
  }
  if (algorithms.empty()) return unimplemented(what + ": the library has none");
  return algorithms;
}

bool HipblasltProduct::serves(const gpu::AlgorithmBytes& bytes, int64_t workspace_bytes) const {
  const auto listed = candidates(workspace_bytes, kListed);
  return listed.ok() && std::find(listed->begin(), listed->end(), bytes) != listed->end();
}

Status HipblasltProduct::run(const gpu::AlgorithmBytes& bytes, const gpu::ProductOperands& operands,
                             const gpu::Workspace& workspace, gpuStream_t stream) {
  const std::optional<hipblasLtMatmulAlgo_t> algorithm = from_bytes(bytes);
  if (!algorithm) return invalid_argument("running " + name() + ": that is no algorithm");
  if (shape_.bias) {
    ENCORE_RETURN_IF_ERROR(set(HIPBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias));
  }
  const float alpha = 1.0F;
  const float beta = shape_.accumulate ? 1.0F : 0.0F;
  return hipblaslt_status(
      hipblaslt_->matmul(handle_, desc_.get(), &alpha, operands.w, w_.get(), operands.x, x_.get(),
                         &beta, operands.y, y_.get(), operands.y, y_.get(), &*algorithm,
                         workspace.data, static_cast<size_t>(workspace.bytes), stream),
      "running " + name());
}

}  // namespace encore::rocm
