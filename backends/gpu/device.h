// One model's view of a GPU: memory, a stream, ops, and capture into graphs.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "blas.h"
#include "encore/lowering/device.h"
#include "kernels/gpu/device_traits.h"
#include "memory.h"
#include "node_labels.h"
#include "ops.h"
#include "range.h"
#include "step_trace.h"
#include "tracer.h"
#include "vendor.h"

namespace encore::gpu {

// What a backend tells its devices.
struct DeviceOptions {
  int32_t ordinal = 0;  // the run-time's own number
  DeviceTraits traits;
  bool overlap = true;  // kernels may start before the one before has ended
  int32_t load_threads = 0;
  std::filesystem::path tuning_folder;  // of the fastest kernels; empty: kept nowhere
  Tracer* tracer = nullptr;             // tells of kernels; null: none does
};

// Enqueues from one thread at a time. The account outlives the device.
class GpuDevice final : public lowering::Device {
 public:
  // Errors: kOutOfMemory; kInternal.
  static Result<std::unique_ptr<GpuDevice>> create(const DeviceOptions& options,
                                                   std::unique_ptr<Blas> blas,
                                                   MemoryAccount& account);
  ~GpuDevice() override;
  // For collectives, which are made for the device's queue and given to its ops.
  gpuStream_t stream() const { return stream_; }
  void meet_through(std::shared_ptr<lowering::Collectives> collectives) {
    ops_->meet_through(std::move(collectives));
  }
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  lowering::Ops& ops() override { return *ops_; }
  DType activation_dtype() const override { return DType::kBF16; }
  ModelInfo model_info() const override { return ops_->model_info(); }

  Result<std::unique_ptr<lowering::DeviceMemoryBlock>> allocate(int64_t bytes,
                                                                const std::string& name) override;
  Result<std::unique_ptr<lowering::DeviceMemoryBlock>> allocate_host(
      int64_t bytes, const std::string& name) override;
  int64_t kv_page_bytes(const ModelSpec& spec, int32_t page_size, DType dtype) const override;
  Result<std::shared_ptr<void>> describe_kv(const ModelSpec& spec, std::byte* pages,
                                            int32_t num_pages, int32_t page_size,
                                            DType dtype) override;
  Result<int64_t> reserve_workspace(const ModelSpec& spec,
                                    const lowering::WorkspaceRequest& request,
                                    int64_t* added_bytes) override;
  Status fill_workspace(uint8_t value) override;

  Status copy_in(std::byte* device, const std::byte* host, int64_t bytes) override;
  Status copy_out(std::byte* host, const std::byte* device, int64_t bytes) override;
  Status copy(std::byte* destination, const std::byte* source, int64_t bytes) override;
  Status fill(std::byte* device, uint8_t value, int64_t bytes) override;

  Status begin_capture() override;
  Result<std::unique_ptr<lowering::DeviceGraph>> end_capture() override;
  Status launch(lowering::DeviceGraph& graph) override;

  void begin_range(std::string_view name, int32_t size) override { push_range(name, size); }
  void end_range() override { pop_range(); }

  Status begin_trace() override;
  Result<std::vector<TraceEvent>> end_trace() override;

  Result<uint64_t> mark() override;
  Status wait(uint64_t mark, int64_t timeout_us) override;

 private:
  // Marks are events that take turns: waiting for an old one may wait for a later one.
  static constexpr uint64_t kNumEvents = 16;

  GpuDevice(const DeviceOptions& options, MemoryAccount& account)
      : options_(options), account_(account), trace_(options.tracer) {}
  // Every entry may come from another thread than the last.
  Status make_current() const;

  DeviceOptions options_;
  MemoryAccount& account_;
  gpuStream_t stream_ = nullptr;
  std::array<gpuEvent_t, kNumEvents> events_ = {};
  uint64_t num_marks_ = 0;
  std::unique_ptr<GpuOps> ops_;
  NodeLabels node_labels_;  // of the capture that is open
  StepTrace trace_;
};

}  // namespace encore::gpu
