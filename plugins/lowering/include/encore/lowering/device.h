// What a backend supplies to the lowering: memory, one in-order queue, ops, and capture.
//
// A device is used by one thread at a time: who enqueues a step, records or copies holds turn() for
// all of it. Work enqueued by ops, copies, fills and launches runs in order. Only wait() may be
// called at any time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "encore/backend.h"
#include "encore/lowering/ops.h"
#include "encore/model_spec.h"
#include "encore/status.h"

namespace encore::lowering {

// Memory, freed with the object. The address never changes. The lowering adds to a device address
// and passes it on; it never reads or writes through one.
class DeviceMemoryBlock {
 public:
  virtual ~DeviceMemoryBlock() = default;
  virtual std::byte* data() const = 0;
  // What it takes of the device, which is what reports state: at least what was asked for.
  virtual int64_t bytes() const = 0;
};

// A recorded sequence of ops, ready to be launched any number of times.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  virtual int64_t executable_bytes() const = 0;
  virtual int32_t num_nodes() const = 0;  // kernel calls a launch makes
};

// Sizes that decide how much workspace the ops need.
struct WorkspaceRequest {
  int32_t max_tokens = 0;
  int32_t max_requests = 0;
  int32_t max_context = 0;
  int32_t max_logit_rows = 0;
  int32_t logit_columns = 0;  // of a row of logits: see shard.h
};

class Device {
 public:
  virtual ~Device() = default;

  // Held by those who use the device from different threads: the runners of different KV caches,
  // and who captures meanwhile.
  std::mutex& turn() { return turn_; }

  virtual Ops& ops() = 0;
  virtual DType activation_dtype() const = 0;
  // What the KV cache is kept in where nobody says.
  virtual DType default_kv_dtype() const {
    return activation_dtype() == DType::kF32 ? DType::kF16 : activation_dtype();
  }
  // A guess, before anything is recorded, at what the graph of so many ops will take.
  virtual int64_t guess_executable_bytes(int32_t num_ops) const {
    constexpr int64_t kBytesAnOp = 4096;
    return num_ops * kBytesAnOp;
  }
  // What the weights loaded so far take: the sum of their blocks' bytes.
  virtual ModelInfo model_info() const = 0;

  // Aligned to 64 bytes at least. Errors: kOutOfMemory naming `name` and the size.
  virtual Result<std::unique_ptr<DeviceMemoryBlock>> allocate(int64_t bytes,
                                                              const std::string& name) = 0;
  // Host memory that copies to and from the device are fastest with: page-locked, where there is
  // such a thing. Errors: kOutOfMemory naming `name` and the size.
  virtual Result<std::unique_ptr<DeviceMemoryBlock>> allocate_host(int64_t bytes,
                                                                   const std::string& name) = 0;
  // Bytes that one page of one layer takes, keys and values of all KV heads together.
  virtual int64_t kv_page_bytes(const ModelSpec& spec, int32_t page_size, DType dtype) const = 0;
  // Describes the KV cache whose pages are at `pages` to the ops: layer l's page p begins at
  // pages + (l * num_pages + p) * kv_page_bytes. The result is AttentionLayer::kv.
  virtual Result<std::shared_ptr<void>> describe_kv(const ModelSpec& spec, std::byte* pages,
                                                    int32_t num_pages, int32_t page_size,
                                                    DType dtype) = 0;

  // Workspace for all ops of a step. What is recorded later uses it, and it never moves: if a later
  // call needs more, a new one is made and graphs already captured keep theirs. Returns its bytes,
  // and in `added_bytes` what this call allocated. Called through grow_workspace().
  virtual Result<int64_t> reserve_workspace(const ModelSpec& spec, const WorkspaceRequest& request,
                                            int64_t* added_bytes) = 0;
  // Reserves for the largest of each size so far: of two KV caches one may have the longer requests
  // and the other the longer steps, and neither may find its part of the workspace too short. So
  // what reserve_workspace() is asked for never shrinks.
  Result<int64_t> grow_workspace(const ModelSpec& spec, const WorkspaceRequest& request,
                                 int64_t* added_bytes) {
    WorkspaceRequest grown = largest_workspace_;
    for (const auto size : {&WorkspaceRequest::max_tokens, &WorkspaceRequest::max_requests,
                            &WorkspaceRequest::max_context, &WorkspaceRequest::max_logit_rows,
                            &WorkspaceRequest::logit_columns}) {
      grown.*size = std::max(grown.*size, request.*size);
    }
    Result<int64_t> bytes = reserve_workspace(spec, grown, added_bytes);
    if (bytes.ok()) largest_workspace_ = grown;
    return bytes;
  }
  // Overwrites the workspace with `value`: between steps it holds nothing that matters.
  virtual Status fill_workspace(uint8_t value) = 0;

  // Enqueued, in order with ops. Host memory given to copy_in may be reused on return, unless it
  // comes from allocate_host: then once a later mark is reached. What copy_out writes is there
  // after wait().
  virtual Status copy_in(std::byte* device, const std::byte* host, int64_t bytes) = 0;
  virtual Status copy_out(std::byte* host, const std::byte* device, int64_t bytes) = 0;
  virtual Status copy(std::byte* destination, const std::byte* source, int64_t bytes) = 0;
  virtual Status fill(std::byte* device, uint8_t value, int64_t bytes) = 0;

  // Ops between the two are recorded and not executed.
  virtual Status begin_capture() = 0;
  virtual Result<std::unique_ptr<DeviceGraph>> end_capture() = 0;
  virtual Status launch(DeviceGraph& graph) = 0;

  // Between the two, everything that the device does is timed. The queue is empty at both ends.
  // Errors: kUnimplemented if the device cannot tell.
  virtual Status begin_trace() { return unimplemented("this device does not trace steps"); }
  virtual Result<std::vector<TraceEvent>> end_trace() { return std::vector<TraceEvent>(); }

  // A stretch of the calling thread, named for the vendor's profiler; ranges nest. A size of 0 is
  // no part of the name. Free of cost where nobody looks.
  virtual void begin_range(std::string_view name, int32_t size) {
    static_cast<void>(name);
    static_cast<void>(size);
  }
  virtual void end_range() {}

  // A point in the queue, and waiting for it. Errors: kDeadlineExceeded after timeout_us (< 0: no
  // limit).
  virtual Result<uint64_t> mark() = 0;
  virtual Status wait(uint64_t mark, int64_t timeout_us) = 0;

 private:
  std::mutex turn_;
  WorkspaceRequest largest_workspace_;
};

}  // namespace encore::lowering
