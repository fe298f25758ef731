// The toy as the lowering sees it: memory, copies, ops, capture. One for each model.
//
// The lowering plans and allocates everything through this interface and never touches device
// memory itself: each byte that crosses passes copy_in() or copy_out(). The toy works while the
// caller waits, so its queue is always empty: mark() and wait() have nothing to do. A device with a
// queue of its own enqueues in copy_in(), copy_out(), the ops and launch(), and waits in wait().
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "encore/lowering/device.h"
#include "toy_core.h"
#include "toy_ops.h"

namespace acme {

class ToyDevice final : public encore::lowering::Device {
 public:
  explicit ToyDevice(std::shared_ptr<ToyMemory> memory)
      : memory_(std::move(memory)), core_(memory_), ops_(core_) {}

  encore::lowering::Ops& ops() override { return ops_; }
  encore::DType activation_dtype() const override { return encore::DType::kF32; }
  encore::ModelInfo model_info() const override { return ops_.model_info(); }

  encore::Result<std::unique_ptr<encore::lowering::DeviceMemoryBlock>> allocate(
      int64_t bytes, const std::string& name) override {
    return memory_->allocate(bytes, name);
  }
  encore::Result<std::unique_ptr<encore::lowering::DeviceMemoryBlock>> allocate_host(
      int64_t bytes, const std::string& name) override;

  int64_t kv_page_bytes(const encore::ModelSpec& spec, int32_t page_size,
                        encore::DType dtype) const override;
  encore::Result<std::shared_ptr<void>> describe_kv(const encore::ModelSpec& spec, std::byte* pages,
                                                    int32_t num_pages, int32_t page_size,
                                                    encore::DType dtype) override;
  encore::Result<int64_t> reserve_workspace(const encore::ModelSpec& spec,
                                            const encore::lowering::WorkspaceRequest& request,
                                            int64_t* added_bytes) override {
    return ops_.reserve_workspace(spec, request, added_bytes);
  }
  encore::Status fill_workspace(uint8_t value) override { return ops_.fill_workspace(value); }

  encore::Status copy_in(std::byte* device, const std::byte* host, int64_t bytes) override {
    return memory_->copy_in(device, host, bytes);
  }
  encore::Status copy_out(std::byte* host, const std::byte* device, int64_t bytes) override {
    return memory_->copy_out(host, device, bytes);
  }
  encore::Status copy(std::byte* destination, const std::byte* source, int64_t bytes) override {
    return memory_->copy(destination, source, bytes);
  }
  encore::Status fill(std::byte* device, uint8_t value, int64_t bytes) override {
    return memory_->fill(device, value, bytes);
  }

  encore::Status begin_capture() override { return core_.begin(); }
  encore::Result<std::unique_ptr<encore::lowering::DeviceGraph>> end_capture() override {
    return core_.end();
  }
  encore::Status launch(encore::lowering::DeviceGraph& graph) override {
    core_.launch(static_cast<const ToyProgram&>(graph));
    return {};
  }

  encore::Result<uint64_t> mark() override { return uint64_t{0}; }
  encore::Status wait(uint64_t, int64_t) override { return {}; }

 private:
  std::shared_ptr<ToyMemory> memory_;
  ToyCore core_;
  ToyOps ops_;
};

}  // namespace acme
