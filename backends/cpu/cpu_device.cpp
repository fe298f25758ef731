#include "cpu_device.h"

#include <cstring>
#include <utility>

namespace encore::cpu {
namespace {

kernels::KvLayout layout_of(const ModelSpec& spec, int32_t page_size, DType dtype) {
  return {static_cast<kernels::WeightType>(dtype), static_cast<int32_t>(spec.num_kv_heads),
          static_cast<int32_t>(spec.head_dim), page_size};
}

}  // namespace

Result<std::unique_ptr<lowering::DeviceMemoryBlock>> CpuDevice::allocate(int64_t bytes,
                                                                         const std::string& name) {
  ENCORE_ASSIGN_OR_RETURN(auto block, MappedBlock::create(bytes, name));
  return std::unique_ptr<lowering::DeviceMemoryBlock>(std::move(block));
}

int64_t CpuDevice::kv_page_bytes(const ModelSpec& spec, int32_t page_size, DType dtype) const {
  return layout_of(spec, page_size, dtype).page_bytes();
}

Result<std::shared_ptr<void>> CpuDevice::describe_kv(const ModelSpec& spec, std::byte* pages,
                                                     int32_t num_pages, int32_t page_size,
                                                     DType dtype) {
  auto kv = std::make_shared<KvDescription>();
  kv->layout = layout_of(spec, page_size, dtype);
  if (!kv->layout.valid()) {
    return invalid_argument(
        "the CPU cannot keep a KV cache of page_size " + std::to_string(page_size) + ", dtype " +
        std::string(dtype_name(dtype)) + ", head_dim " + std::to_string(spec.head_dim) +
        "; page_size must be 16, 32 or 64, dtype f32, f16 or bf16, head_dim a multiple of 8 up to "
        "256");
  }
  kv->pages = pages;
  kv->num_pages = num_pages;
  return std::shared_ptr<void>(std::move(kv));
}

Status CpuDevice::fill_workspace(uint8_t value) {
  ops_.fill_workspace(value);
  return {};
}

Status CpuDevice::copy_in(std::byte* device, const std::byte* host, int64_t bytes) {
  return copy(device, host, bytes);
}

Status CpuDevice::copy_out(std::byte* host, const std::byte* device, int64_t bytes) {
  return copy(host, device, bytes);
}

Status CpuDevice::copy(std::byte* destination, const std::byte* source, int64_t bytes) {
  std::memcpy(destination, source, static_cast<size_t>(bytes));
  return {};
}

Status CpuDevice::fill(std::byte* device, uint8_t value, int64_t bytes) {
  std::memset(device, value, static_cast<size_t>(bytes));
  return {};
}

Status CpuDevice::begin_capture() {
  if (plan_ != nullptr) return failed_precondition("a capture is already open");
  plan_ = std::make_unique<Plan>();
  ops_.record_into(plan_.get());
  return {};
}

Result<std::unique_ptr<lowering::DeviceGraph>> CpuDevice::end_capture() {
  if (plan_ == nullptr) return failed_precondition("no capture is open");
  ops_.record_into(nullptr);
  return std::unique_ptr<lowering::DeviceGraph>(std::move(plan_));
}

Status CpuDevice::launch(lowering::DeviceGraph& graph) {
  const auto& nodes = static_cast<const Plan&>(graph).nodes();
  if (trace_ == nullptr) {
    team_->run(nodes);
  } else {
    for (const PlanNode& node : nodes) trace_->run(*team_, node);
  }
  return {};
}

Status CpuDevice::begin_trace() {
  trace_ = std::make_unique<StepTrace>();
  ops_.trace_into(trace_.get());
  return {};
}

Result<std::vector<TraceEvent>> CpuDevice::end_trace() {
  ops_.trace_into(nullptr);
  std::vector<TraceEvent> events = trace_->take();
  trace_.reset();
  return events;
}

}  // namespace encore::cpu
