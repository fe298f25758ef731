// Brings a model's weights to the device as bf16, by several threads at once.
//
// Each weight is cut into pieces; each thread reads pieces from the source into page-locked memory
// and copies them on, so that file reads, copies and conversions of different pieces overlap.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "encore/lowering/device.h"
#include "encore/status.h"
#include "encore/weights.h"
#include "upload_lane.h"
#include "weight_slab.h"

namespace encore::gpu {

// Where the uploader takes memory, with a name for the account; freed when the upload ends. Called
// by the thread that calls create().
using AllocateMemory = std::function<Result<std::unique_ptr<lowering::DeviceMemoryBlock>>(
    int64_t bytes, const std::string& name)>;
struct UploadMemory {
  AllocateMemory device;
  AllocateMemory host;  // page-locked
};

struct UploadOptions {
  int32_t threads = 0;                     // 0: one a core, at most 8
  int64_t piece_bytes = int64_t{2} << 20;  // larger ones take longer to page-lock than they save
};

// Used by one thread, with the device current. Destroying it at any time ends the upload, joins the
// threads and frees what they used; what was not finished has undefined contents.
class WeightUploader {
 public:
  // `slab` is device memory of WeightSlab::bytes(source), aligned to 256 bytes; it and the source
  // outlive the uploader.
  // Errors: kInvalidArgument for options; kOutOfMemory; kUnavailable if no thread can be started.
  static Result<std::unique_ptr<WeightUploader>> create(const WeightSource& source, std::byte* slab,
                                                        const UploadMemory& memory,
                                                        const UploadOptions& options);
  ~WeightUploader();
  WeightUploader(const WeightUploader&) = delete;
  WeightUploader& operator=(const WeightUploader&) = delete;

  // Starts bringing in weights that lie one directly after the other, such as the rows of one fused
  // matrix, and gives the device address of the first. Returns when all but the last few pieces
  // have been taken up: what the caller has enqueued is its measure of progress. Weights that were
  // enqueued before, alone or in the same order, are not loaded again.
  // Errors: WeightSlab::place()'s; the first error of any thread, after which every call gives it.
  Result<void*> enqueue(std::span<const size_t> weights);

  // Waits until everything is in place, for any stream to read, and ends the threads.
  // Errors: the first error of any thread. kFailedPrecondition if it was called before.
  Status finish();

 private:
  WeightUploader(const WeightSource& source, std::byte* slab)
      : source_(source), slab_(slab), places_(source) {}

  Status allocate(const UploadMemory& memory, int32_t threads);
  Status start(int32_t threads);
  void work(UploadLane& lane);
  Status work_through(UploadLane& lane);
  bool take(WeightPiece* piece);
  Status push(const WeightPiece& piece);
  Status enqueue_weight(size_t weight, std::byte* destination);
  void fail(const Status& status);
  void stop(bool discard);

  const WeightSource& source_;
  std::byte* slab_;
  WeightSlab places_;
  int64_t piece_bytes_ = 0;
  size_t queue_limit_ = 0;
  int device_ = 0;

  // Freed in this order reversed: lanes use the buffers until they are destroyed.
  std::unique_ptr<lowering::DeviceMemoryBlock> host_buffers_;
  std::unique_ptr<lowering::DeviceMemoryBlock> device_buffers_;
  std::vector<std::unique_ptr<UploadLane>> lanes_;
  std::vector<std::thread> threads_;

  std::mutex mutex_;
  std::condition_variable piece_queued_;
  std::condition_variable piece_taken_;
  std::deque<WeightPiece> queue_;  // guarded by mutex_, as are the rest
  bool closed_ = false;            // no more pieces will come
  Status error_;                   // the first one
};

}  // namespace encore::gpu
