#include "weight_upload.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "gpu_status.h"

namespace encore::gpu {
namespace {

constexpr int32_t kMaxDefaultThreads = 8;
constexpr int32_t kMaxThreads = 64;
// Pieces end on a multiple of this many format groups, so that every piece's bf16 starts aligned.
constexpr int64_t kGroupsTogether = 128;
constexpr int64_t kMinPieceBytes = int64_t{64} << 10;  // more than that many of the largest groups
constexpr int64_t kMaxPieceBytes = int64_t{1} << 30;

int32_t thread_count(const UploadOptions& options) {
  if (options.threads > 0) return options.threads;
  const auto cores = static_cast<int32_t>(std::thread::hardware_concurrency());
  return std::clamp(cores, 1, kMaxDefaultThreads);
}

// The length of piece that this source needs: no longer than its largest weight.
int64_t piece_bytes_for(const WeightSource& source, int64_t wanted) {
  int64_t largest = kMinPieceBytes;
  for (const WeightInfo& weight : source.weights()) largest = std::max(largest, weight.bytes);
  const int64_t bytes = std::min(wanted, largest);
  return (bytes + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment;
}

bool needs_conversion(const WeightSource& source) {
  const std::span<const WeightInfo> weights = source.weights();
  return std::any_of(weights.begin(), weights.end(),
                     [](const WeightInfo& weight) { return weight.dtype != DType::kBF16; });
}

}  // namespace

Result<std::unique_ptr<WeightUploader>> WeightUploader::create(const WeightSource& source,
                                                               std::byte* slab,
                                                               const UploadMemory& memory,
                                                               const UploadOptions& options) {
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return invalid_argument("upload with " + std::to_string(options.threads) +
                            " threads; at most " + std::to_string(kMaxThreads) + " are useful");
  }
  if (options.piece_bytes < kMinPieceBytes || options.piece_bytes > kMaxPieceBytes) {
    return invalid_argument("upload in pieces of " + std::to_string(options.piece_bytes) +
                            " bytes; they must have " + std::to_string(kMinPieceBytes) + " to " +
                            std::to_string(kMaxPieceBytes));
  }
  std::unique_ptr<WeightUploader> uploader(new WeightUploader(source, slab));
  uploader->piece_bytes_ = piece_bytes_for(source, options.piece_bytes);
  const int32_t threads = thread_count(options);
  uploader->queue_limit_ = 2 * static_cast<size_t>(threads);
  ENCORE_RETURN_IF_ERROR(gpu_status(gpuGetDevice(&uploader->device_), "finding the device"));
  ENCORE_RETURN_IF_ERROR(uploader->allocate(memory, threads));
  ENCORE_RETURN_IF_ERROR(uploader->start(threads));
  return uploader;
}

WeightUploader::~WeightUploader() { stop(/*discard=*/true); }

Status WeightUploader::allocate(const UploadMemory& memory, int32_t threads) {
  ENCORE_ASSIGN_OR_RETURN(host_buffers_,
                          memory.host(2 * threads * piece_bytes_, "weight staging, host"));
  if (needs_conversion(source_)) {
    ENCORE_ASSIGN_OR_RETURN(device_buffers_,
                            memory.device(threads * piece_bytes_, "weight staging, device"));
  }
  for (int32_t i = 0; i < threads; ++i) {
    std::byte* const host = host_buffers_->data() + 2 * i * piece_bytes_;
    LaneBuffers buffers{{host, host + piece_bytes_}, nullptr};
    if (device_buffers_ != nullptr) buffers.device = device_buffers_->data() + i * piece_bytes_;
    ENCORE_ASSIGN_OR_RETURN(std::unique_ptr<UploadLane> lane, UploadLane::create(buffers));
    lanes_.push_back(std::move(lane));
  }
  return {};
}

Status WeightUploader::start(int32_t threads) {
  threads_.reserve(static_cast<size_t>(threads));
  for (const std::unique_ptr<UploadLane>& lane : lanes_) {
    try {
      threads_.emplace_back([this, &lane] { work(*lane); });
    } catch (const std::system_error& error) {
      // Fewer threads are slower, and enough.
      if (threads_.empty()) {
        return unavailable(std::string("no thread for loading weights: ") + error.what());
      }
      break;
    }
  }
  return {};
}

void WeightUploader::work(UploadLane& lane) {
  Status status = gpu_status(gpuSetDevice(device_), "choosing the device");
  if (status.ok()) status = work_through(lane);
  if (!status.ok()) fail(status);
}

// Even after an error the copies under way must end before the buffers are freed, so the lane is
// drained either way.
Status WeightUploader::work_through(UploadLane& lane) {
  Status status;
  WeightPiece piece;
  while (status.ok() && take(&piece)) status = lane.upload(source_, piece);
  Status drained = lane.drain();
  return status.ok() ? drained : status;
}

// Waits for a piece; false once no more will come.
bool WeightUploader::take(WeightPiece* piece) {
  std::unique_lock lock(mutex_);
  piece_queued_.wait(lock, [this] { return !queue_.empty() || closed_; });
  if (queue_.empty()) return false;
  *piece = queue_.front();
  queue_.pop_front();
  piece_taken_.notify_one();
  return true;
}

Status WeightUploader::push(const WeightPiece& piece) {
  std::unique_lock lock(mutex_);
  piece_taken_.wait(lock, [this] { return queue_.size() < queue_limit_ || closed_; });
  if (!error_.ok()) return error_;
  queue_.push_back(piece);
  piece_queued_.notify_one();
  return {};
}

void WeightUploader::fail(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (error_.ok()) error_ = status;
    closed_ = true;
    queue_.clear();
  }
  piece_queued_.notify_all();
  piece_taken_.notify_all();
}

void WeightUploader::stop(bool discard) {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    if (discard) queue_.clear();
  }
  piece_queued_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

Result<void*> WeightUploader::enqueue(std::span<const size_t> weights) {
  {
    const std::lock_guard lock(mutex_);
    if (!error_.ok()) return error_;
    if (closed_) return failed_precondition("the upload has been finished");
  }
  ENCORE_ASSIGN_OR_RETURN(const WeightSlab::Place place, places_.place(weights));
  std::byte* const first = slab_ + place.offset;
  std::byte* destination = first;
  for (const size_t weight : weights) {
    if (!place.fresh) break;
    ENCORE_RETURN_IF_ERROR(enqueue_weight(weight, destination));
    destination += bf16_bytes(source_.weights()[weight]);
  }
  return static_cast<void*>(first);
}

Status WeightUploader::enqueue_weight(size_t weight, std::byte* destination) {
  const WeightInfo& info = source_.weights()[weight];
  const DTypeInfo dtype = dtype_info(info.dtype);
  const int64_t groups = weight_elements(info) / dtype.block_elements;
  const int64_t step = piece_bytes_ / (dtype.block_bytes * kGroupsTogether) * kGroupsTogether;
  for (int64_t group = 0; group < groups; group += step) {
    const int64_t count = std::min(step, groups - group);
    WeightPiece piece;
    piece.weight = weight;
    piece.offset = group * dtype.block_bytes;
    piece.bytes = count * dtype.block_bytes;
    piece.elements = count * dtype.block_elements;
    piece.format = static_cast<WeightFormat>(info.dtype);
    piece.destination = destination + 2 * group * dtype.block_elements;
    ENCORE_RETURN_IF_ERROR(push(piece));
  }
  return {};
}

Status WeightUploader::finish() {
  if (threads_.empty()) {
    const std::lock_guard lock(mutex_);
    return error_.ok() ? failed_precondition("the upload was finished before") : error_;
  }
  stop(/*discard=*/false);
  lanes_.clear();
  device_buffers_.reset();
  host_buffers_.reset();
  const std::lock_guard lock(mutex_);
  return error_;
}

}  // namespace encore::gpu
