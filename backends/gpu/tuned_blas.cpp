#include "tuned_blas.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "encore/sdk/host.h"
#include "gpu_status.h"
#include "product_repeat.h"
#include "product_timing.h"

namespace encore::gpu {
namespace {

// Eager steps bring any number of rows, and each is prepared once. Past this many the table starts
// anew: a prepared product takes about 1 KB.
constexpr size_t kMaxPrepared = 8192;
constexpr uintptr_t kAlignment = 16;
constexpr int kMaxCandidates = 16;

bool aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % kAlignment == 0; }

Status check_not_captured(gpuStream_t stream) {
  ENCORE_GPU_NAME(StreamCaptureStatus) capture = ENCORE_GPU_NAME(StreamCaptureStatusNone);
  ENCORE_RETURN_IF_ERROR(
      gpu_status(ENCORE_GPU_NAME(StreamIsCapturing)(stream, &capture), "asking about a stream"));
  if (capture == ENCORE_GPU_NAME(StreamCaptureStatusNone)) return {};
  return failed_precondition("products cannot be tuned while their stream is captured");
}

}  // namespace

size_t ProductShapeHash::operator()(const ProductShape& shape) const {
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

TunedBlas::TunedBlas(std::unique_ptr<ProductLibrary> library,
                     const std::filesystem::path& tuning_folder)
    : library_(std::move(library)),
      tuning_(tuning_folder, library_->identity()),
      workspace_{nullptr, library_->workspace_bytes()} {
  const Status loaded = tuning_.load();
  if (!loaded.ok()) sdk::log(sdk::LogLevel::kWarn, loaded.message());
}

Status TunedBlas::check(const ProductShape& shape, const ProductOperands& operands) const {
  ENCORE_RETURN_IF_ERROR(check_product(shape, operands));
  if (workspace_.data == nullptr) {
    return failed_precondition("products need a workspace; call set_workspace() first");
  }
  return {};
}

Result<TunedBlas::Prepared*> TunedBlas::prepare(const ProductShape& shape) {
  const auto known = prepared_.find(shape);
  if (known != prepared_.end()) return &known->second;
  Prepared prepared;
  ENCORE_ASSIGN_OR_RETURN(prepared.product, library_->describe(shape));
  const AlgorithmBytes* tuned = tuning_.nearest(shape);
  // An algorithm tuned on another m need not serve this one.
  if (tuned != nullptr && prepared.product->serves(*tuned, workspace_.bytes)) {
    prepared.algorithm = *tuned;
  } else {
    ENCORE_ASSIGN_OR_RETURN(std::vector<AlgorithmBytes> candidates,
                            prepared.product->candidates(workspace_.bytes, 1));
    prepared.algorithm = std::move(candidates.front());
  }
  if (prepared_.size() >= kMaxPrepared) prepared_.clear();
  return &prepared_.emplace(shape, std::move(prepared)).first->second;
}

Status TunedBlas::multiply(const ProductShape& shape, const ProductOperands& operands,
                           void* stream) {
  ENCORE_RETURN_IF_ERROR(check(shape, operands));
  ENCORE_ASSIGN_OR_RETURN(Prepared * prepared, prepare(shape));
  return prepared->product->run(prepared->algorithm, operands, workspace_,
                                static_cast<gpuStream_t>(stream));
}

// The fastest of those that give the same bits every time.
Result<AlgorithmBytes> TunedBlas::choose(LibraryProduct& product, const ProductShape& shape,
                                         const ProductOperands& operands,
                                         std::span<const void* const> weights, gpuStream_t stream) {
  ENCORE_ASSIGN_OR_RETURN(std::vector<AlgorithmBytes> candidates,
                          product.candidates(workspace_.bytes, kMaxCandidates));
  const auto enqueue = [&](size_t candidate, const void* w) {
    ProductOperands turn = operands;
    turn.w = w;
    return product.run(candidates[candidate], turn, workspace_, stream);
  };
  while (!candidates.empty()) {
    ENCORE_ASSIGN_OR_RETURN(const size_t fastest, fastest_candidate(candidates.size(), enqueue,
                                                                    operands.w, weights, stream));
    if (library_->promises_same_bits()) return candidates[fastest];
    ENCORE_ASSIGN_OR_RETURN(
        const bool repeats,
        gives_same_bits(
            shape, operands.y, [&] { return enqueue(fastest, operands.w); }, stream));
    if (repeats) return candidates[fastest];
    sdk::log(sdk::LogLevel::kInfo,
             "blas_bits_differ: an algorithm for " + name_of(shape) +
                 " gives other bits from one time to the next; it is not taken");
    candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(fastest));
  }
  return unimplemented(name_of(shape) + ": no algorithm gives the same bits every time");
}

Status TunedBlas::tune(const ProductShape& shape, const ProductOperands& operands,
                       std::span<const void* const> weights, void* stream) {
  ENCORE_RETURN_IF_ERROR(check(shape, operands));
  if (!std::all_of(weights.begin(), weights.end(), aligned)) {
    return invalid_argument("a product's operands must be aligned to 16 bytes");
  }
  auto* const queue = static_cast<gpuStream_t>(stream);
  ENCORE_RETURN_IF_ERROR(check_not_captured(queue));
  ENCORE_ASSIGN_OR_RETURN(const std::unique_ptr<LibraryProduct> product, library_->describe(shape));
  const AlgorithmBytes* recorded = tuning_.find(shape);
  if (recorded != nullptr && product->serves(*recorded, workspace_.bytes)) return {};
  ENCORE_ASSIGN_OR_RETURN(AlgorithmBytes fastest,
                          choose(*product, shape, operands, weights, queue));
  tuning_.put(shape, std::move(fastest));
  prepared_.clear();  // other m of this product may now be served by this choice
  return {};
}

}  // namespace encore::gpu
