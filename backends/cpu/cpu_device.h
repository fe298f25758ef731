// One model's view of the CPU: memory, ops, and capture into plans. Work is done when the call
// that asked for it returns, so the queue is always empty.
#pragma once

#include <memory>
#include <utility>

#include "cpu_ops.h"
#include "encore/lowering/device.h"
#include "plan.h"
#include "thread_team.h"

namespace encore::cpu {

class CpuDevice final : public lowering::Device {
 public:
  CpuDevice(std::shared_ptr<ThreadTeam> team, kernels::IsaLevel level, RankPlace place = {})
      : team_(std::move(team)), ops_(*team_, level, std::move(place)) {}

  lowering::Ops& ops() override { return ops_; }
  DType activation_dtype() const override { return DType::kF32; }
  ModelInfo model_info() const override { return ops_.loader().info(); }

  Result<std::unique_ptr<lowering::DeviceMemoryBlock>> allocate(int64_t bytes,
                                                                const std::string& name) override;
  Result<std::unique_ptr<lowering::DeviceMemoryBlock>> allocate_host(
      int64_t bytes, const std::string& name) override {
    return allocate(bytes, name);
  }
  int64_t kv_page_bytes(const ModelSpec& spec, int32_t page_size, DType dtype) const override;
  Result<std::shared_ptr<void>> describe_kv(const ModelSpec& spec, std::byte* pages,
                                            int32_t num_pages, int32_t page_size,
                                            DType dtype) override;
  Result<int64_t> reserve_workspace(const ModelSpec& spec,
                                    const lowering::WorkspaceRequest& request,
                                    int64_t* added_bytes) override {
    return ops_.reserve_workspace(spec, request, added_bytes);
  }
  Status fill_workspace(uint8_t value) override;

  Status copy_in(std::byte* device, const std::byte* host, int64_t bytes) override;
  Status copy_out(std::byte* host, const std::byte* device, int64_t bytes) override;
  Status copy(std::byte* destination, const std::byte* source, int64_t bytes) override;
  Status fill(std::byte* device, uint8_t value, int64_t bytes) override;

  Status begin_capture() override;
  Result<std::unique_ptr<lowering::DeviceGraph>> end_capture() override;
  Status launch(lowering::DeviceGraph& graph) override;

  Status begin_trace() override;
  Result<std::vector<TraceEvent>> end_trace() override;
  Result<uint64_t> mark() override {
    ENCORE_RETURN_IF_ERROR(ops_.meeting_status());
    return uint64_t{0};
  }
  Status wait(uint64_t, int64_t) override { return {}; }

 private:
  std::shared_ptr<ThreadTeam> team_;
  CpuOps ops_;
  std::unique_ptr<Plan> plan_;  // being recorded
  std::unique_ptr<StepTrace> trace_;
};

}  // namespace encore::cpu
