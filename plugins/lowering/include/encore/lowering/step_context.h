// What all runners of one KV cache share: static inputs, results, arena and workspace.
//
// Made by whichever runner comes first, kept by all. That is what lets a decode graph read the
// token that a prefill graph sampled a moment ago, without the host.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "encore/backend.h"
#include "encore/lowering/capture_faults.h"
#include "encore/lowering/device.h"
#include "encore/lowering/guarded_memory.h"
#include "encore/lowering/layer_stack.h"
#include "encore/lowering/step_staging.h"
#include "encore/status.h"

namespace encore::lowering {

class StepContext {
 public:
  // Steps that may be submitted and not yet waited for.
  static constexpr uint64_t kMaxTicketsInFlight = 4;

  struct Options {
    RunnerLimits limits;
    bool poison = false;
    bool guards = false;
    std::shared_ptr<const CaptureFaults> faults = nullptr;  // null: none
  };

  // `kv` describes the cache to the device's ops. The memory it takes is added to `report`.
  static Result<std::unique_ptr<StepContext>> create(Device& device, GuardList& guards,
                                                     const LayerStack& stack, const KvInfo& kv_info,
                                                     void* kv, const Options& options,
                                                     CaptureReport* report);

  // Device memory that create() will allocate with these arguments, the workspace excepted.
  static int64_t planned_bytes(const Device& device, const LayerStack& stack, const KvInfo& kv_info,
                               const Options& options);
  // The workspace that create() will ask the device for.
  static WorkspaceRequest workspace_of(const RunnerLimits& limits, const LayerStack& stack) {
    return {limits.max_tokens, limits.max_requests, limits.max_context, limits.max_requests,
            static_cast<int32_t>(logit_columns(stack.spec(), stack.shard()))};
  }

  Device& device() { return device_; }
  const Options& options() const { return options_; }
  const StepStaging& staging() const { return staging_; }
  uint64_t num_steps() const { return next_ticket_ - 1; }

  // The step padded to `tokens` tokens and `requests` requests (and as many logits rows), and the
  // bytes of the arena it uses. REQUIRES: both are within the limits.
  Step step_of(int32_t tokens, int32_t requests, bool decode_only,
               int64_t* arena_bytes = nullptr) const;
  // Its inputs alone: allocates nothing.
  StepInputs inputs_of(int32_t tokens, int32_t requests, bool decode_only) const {
    return staging_.inputs_at(inputs_->data(), tokens, requests, decode_only);
  }
  int64_t workspace_bytes() const { return workspace_bytes_; }

  // Runs an empty step of each kind, so that what the device prepares when an op first runs is
  // prepared before anything is captured. Once; later calls do nothing.
  Status warm_up();

  // Validates and packs the batch, and enqueues its copy to the device.
  Status stage(const ForwardBatch& batch, const StepOutput& output, int32_t padded_tokens,
               int32_t padded_requests);
  // Enqueues the copies of a step's results to the host. `logits` are the step's logits rows.
  Result<Ticket> finish(const ForwardBatch& batch, const StepOutput& output, const Matrix& logits);
  // Waits for the copies and hands them over.
  Status wait(Ticket ticket, int64_t timeout_us);

 private:
  Status copy_logits(const ForwardBatch& batch, const StepOutput& output, const Matrix& logits);

  struct ResultLayout {
    int64_t tokens, row_status, logprobs, top_tokens, top_logprobs, host_bytes;
    int64_t input_tokens, device_bytes;
  };
  // One step's inputs on their way to the device, and its results on their way to the caller.
  struct Slot {
    Ticket ticket = 0;  // 0: free
    uint64_t mark = 0;
    int32_t rows = 0;
    StepOutput output;
    std::unique_ptr<DeviceMemoryBlock> inputs;   // host memory
    std::unique_ptr<DeviceMemoryBlock> results;  // host memory
  };

  StepContext(Device& device, const LayerStack& stack, const KvInfo& kv_info, void* kv,
              const Options& options);
  static ResultLayout layout_of(const RunnerLimits& limits);
  StepResults results_at(std::byte* base) const;
  void deliver(const Slot& slot) const;
  Status poison(std::byte* host);

  Device& device_;
  const LayerStack& stack_;
  void* kv_;
  Options options_;
  StepStaging staging_;
  ResultLayout layout_;
  std::unique_ptr<GuardedMemory> inputs_;
  std::unique_ptr<GuardedMemory> results_;
  std::unique_ptr<GuardedMemory> arena_;
  int64_t workspace_bytes_ = 0;
  std::array<Slot, kMaxTicketsInFlight> slots_;
  Ticket next_ticket_ = 1;
  bool warm_ = false;
};

}  // namespace encore::lowering
