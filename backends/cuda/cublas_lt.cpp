#include "cublas_lt.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cublas_tuning.h"
#include "encore/sdk/host.h"
#include "gpu_status.h"

namespace encore::cuda {
namespace {

// Eager steps bring any number of rows, and each is prepared once. Past this many the table starts
// anew: a prepared product takes about 1 KB.
constexpr size_t kMaxPrepared = 8192;
constexpr uintptr_t kAlignment = 16;

// What an algorithm is good for: this device with this version of the library.
Result<std::string> tuning_identity(const CublasFunctions& cublas) {
  int device = 0;
  cudaDeviceProp properties{};
  ENCORE_RETURN_IF_ERROR(gpu::gpu_status(cudaGetDevice(&device), "finding the device"));
  ENCORE_RETURN_IF_ERROR(
      gpu::gpu_status(cudaGetDeviceProperties(&properties, device), "asking about the device"));
  return std::string(properties.name) + ", sm " + std::to_string(properties.major) + "." +
         std::to_string(properties.minor) + ", " + std::to_string(properties.multiProcessorCount) +
         " multiprocessors, cublasLt " + std::to_string(cublas.version());
}

gpu::AlgorithmBytes to_bytes(const cublasLtMatmulAlgo_t& algorithm) {
  const auto* begin = reinterpret_cast<const std::byte*>(&algorithm);
  return {begin, begin + sizeof(algorithm)};
}

// Nothing if the size is not an algorithm's. What the bytes say is checked by the library.
std::optional<cublasLtMatmulAlgo_t> from_bytes(const gpu::AlgorithmBytes* bytes) {
  if (bytes == nullptr || bytes->size() != sizeof(cublasLtMatmulAlgo_t)) return {};
  cublasLtMatmulAlgo_t algorithm;
  std::memcpy(&algorithm, bytes->data(), sizeof(algorithm));
  return algorithm;
}

bool aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % kAlignment == 0; }

}  // namespace

size_t CublasLt::ShapeHash::operator()(const gpu::ProductShape& shape) const {
  uint64_t hash = static_cast<uint64_t>(shape.m);
  const auto mix = [&](uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 29;
  };
  mix(static_cast<uint64_t>(shape.n));
  mix(static_cast<uint64_t>(shape.k));
  mix(static_cast<uint64_t>(shape.output) * 4 + (shape.accumulate ? 2 : 0) + (shape.bias ? 1 : 0));
  return hash;
}

Result<std::unique_ptr<CublasLt>> CublasLt::create(const std::filesystem::path& tuning_folder) {
  ENCORE_ASSIGN_OR_RETURN(const CublasFunctions cublas, open_cublas(cublas_candidates()));
  ENCORE_ASSIGN_OR_RETURN(std::string identity, tuning_identity(cublas));
  cublasLtHandle_t handle = nullptr;
  ENCORE_RETURN_IF_ERROR(cublas_status(cublas, cublas.create(&handle), "starting cuBLASLt"));
  gpu::TuningCache tuning(tuning_folder, std::move(identity));
  const Status loaded = tuning.load();
  if (!loaded.ok()) sdk::log(sdk::LogLevel::kWarn, loaded.message());
  return std::unique_ptr<CublasLt>(new CublasLt(cublas, handle, std::move(tuning)));
}

CublasLt::~CublasLt() { static_cast<void>(cublas_.destroy(handle_)); }

Status CublasLt::check(const gpu::ProductShape& shape, const gpu::ProductOperands& operands) const {
  ENCORE_RETURN_IF_ERROR(gpu::check_product(shape, operands));
  if (workspace_.data == nullptr) {
    return failed_precondition("products need a workspace; call set_workspace() first");
  }
  return {};
}

Result<CublasLt::Prepared*> CublasLt::prepare(const gpu::ProductShape& shape) {
  const auto known = prepared_.find(shape);
  if (known != prepared_.end()) return &known->second;
  ENCORE_ASSIGN_OR_RETURN(CublasProduct product, CublasProduct::create(cublas_, handle_, shape));
  std::optional<cublasLtMatmulAlgo_t> algorithm = from_bytes(tuning_.nearest(shape));
  // An algorithm tuned on another m need not serve this one.
  if (!algorithm || !product.serves(*algorithm, workspace_.bytes)) {
    ENCORE_ASSIGN_OR_RETURN(const std::vector<cublasLtMatmulAlgo_t> candidates,
                            product.candidates(workspace_.bytes, 1));
    algorithm = candidates.front();
  }
  if (prepared_.size() >= kMaxPrepared) prepared_.clear();
  const auto made = prepared_.emplace(shape, Prepared{std::move(product), *algorithm});
  return &made.first->second;
}

Status CublasLt::multiply(const gpu::ProductShape& shape, const gpu::ProductOperands& operands,
                          void* stream) {
  ENCORE_RETURN_IF_ERROR(check(shape, operands));
  ENCORE_ASSIGN_OR_RETURN(Prepared * prepared, prepare(shape));
  return prepared->product.run(prepared->algorithm, operands, workspace_,
                               static_cast<cudaStream_t>(stream));
}

Status CublasLt::tune(const gpu::ProductShape& shape, const gpu::ProductOperands& operands,
                      std::span<const void* const> weights, void* stream) {
  ENCORE_RETURN_IF_ERROR(check(shape, operands));
  if (!std::all_of(weights.begin(), weights.end(), aligned)) {
    return invalid_argument("a product's operands must be aligned to 16 bytes");
  }
  auto* const queue = static_cast<cudaStream_t>(stream);
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  ENCORE_RETURN_IF_ERROR(
      gpu::gpu_status(cudaStreamIsCapturing(queue, &capture), "asking about a stream"));
  if (capture != cudaStreamCaptureStatusNone) {
    return failed_precondition("products cannot be tuned while their stream is captured");
  }
  ENCORE_ASSIGN_OR_RETURN(CublasProduct product, CublasProduct::create(cublas_, handle_, shape));
  const std::optional<cublasLtMatmulAlgo_t> recorded = from_bytes(tuning_.find(shape));
  if (recorded && product.serves(*recorded, workspace_.bytes)) return {};
  ENCORE_ASSIGN_OR_RETURN(const cublasLtMatmulAlgo_t fastest,
                          fastest_algorithm(product, operands, weights, workspace_, queue));
  tuning_.put(shape, to_bytes(fastest));
  prepared_.clear();  // other m of this product may now be served by this choice
  return {};
}

}  // namespace encore::cuda
