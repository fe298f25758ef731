// The toy as the lowering sees it: memory, copies, ops, capture. One for each model.
//
// The lowering plans and allocates everything through this interface and never touches device
// memory itself: each byte that crosses passes copy_in() or copy_out(). The toy works while the
// caller waits, so its queue is always empty: mark() and wait() have nothing to do. A device with a
// queue of its own enqueues in copy_in(), copy_out(), the ops and launch(), and waits in wait().
#pragma once

#include <memory>
#include <new>
#include <string>
#include <utility>

#include "encore/lowering/device.h"
#include "toy_core.h"
#include "toy_ops.h"

namespace acme {

// Host memory that the toy copies from and to. Page-locked, where hardware asks for that.
class HostBlock final : public lowering::DeviceMemoryBlock {
 public:
  static constexpr std::align_val_t kAlignment{64};
  HostBlock(void* data, int64_t bytes) : data_(static_cast<std::byte*>(data)), size_(bytes) {}
  ~HostBlock() override { operator delete(data_, kAlignment); }
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;
  std::byte* data() const override { return data_; }
  int64_t bytes() const override { return size_; }

 private:
  std::byte* data_;
  int64_t size_;
};

class ToyDevice final : public lowering::Device {
 public:
  explicit ToyDevice(std::shared_ptr<ToyMemory> memory)
      : memory_(std::move(memory)), core_(memory_), ops_(core_) {}

  lowering::Ops& ops() override { return ops_; }
  encore::DType activation_dtype() const override { return encore::DType::kF32; }
  encore::ModelInfo model_info() const override { return ops_.model_info(); }

  // Memory.
  Result<std::unique_ptr<lowering::DeviceMemoryBlock>> allocate(int64_t bytes,
                                                                const std::string& name) override {
    return memory_->allocate(bytes, name);
  }
  Result<std::unique_ptr<lowering::DeviceMemoryBlock>> allocate_host(
      int64_t bytes, const std::string& name) override {
    void* data = operator new(static_cast<size_t>(bytes), HostBlock::kAlignment, std::nothrow);
    if (data == nullptr) {
      return encore::out_of_memory(std::string("no host memory for '") + name + "', " +
                                   std::to_string(bytes) + " bytes; free some");
    }
    return std::unique_ptr<lowering::DeviceMemoryBlock>(std::make_unique<HostBlock>(data, bytes));
  }
  Result<int64_t> reserve_workspace(const ModelSpec& spec,
                                    const lowering::WorkspaceRequest& request,
                                    int64_t* added_bytes) override {
    return ops_.reserve_workspace(spec, request, added_bytes);
  }
  Status fill_workspace(uint8_t value) override { return ops_.fill_workspace(value); }

  // The KV cache: how large a page is, and where layers and pages lie.
  int64_t kv_page_bytes(const ModelSpec& spec, int32_t page_size,
                        encore::DType dtype) const override {
    return layout_of(spec, page_size, dtype).page_bytes();
  }
  Result<std::shared_ptr<void>> describe_kv(const ModelSpec& spec, std::byte* pages,
                                            int32_t num_pages, int32_t page_size,
                                            encore::DType dtype) override {
    const kernels::KvLayout layout = layout_of(spec, page_size, dtype);
    if (!layout.valid()) {
      return encore::invalid_argument("kv_cache.page_size is " + std::to_string(page_size) +
                                      " and dtype " + std::string(encore::dtype_name(dtype)) +
                                      "; the toy takes 16, 32 or 64, and f32, f16 or bf16");
    }
    return std::shared_ptr<void>(
        std::make_shared<KvDescription>(KvDescription{layout, pages, num_pages}));
  }

  // Copies.
  Status copy_in(std::byte* device, const std::byte* host, int64_t bytes) override {
    return memory_->copy_in(device, host, bytes);
  }
  Status copy_out(std::byte* host, const std::byte* device, int64_t bytes) override {
    return memory_->copy_out(host, device, bytes);
  }
  Status copy(std::byte* destination, const std::byte* source, int64_t bytes) override {
    return memory_->copy(destination, source, bytes);
  }
  Status fill(std::byte* device, uint8_t value, int64_t bytes) override {
    return memory_->fill(device, value, bytes);
  }

  // Capture and replay.
  Status begin_capture() override { return core_.begin(); }
  Result<std::unique_ptr<lowering::DeviceGraph>> end_capture() override { return core_.end(); }
  Status launch(lowering::DeviceGraph& graph) override {
    core_.launch(static_cast<const ToyProgram&>(graph));
    return {};
  }

  // The queue.
  Result<uint64_t> mark() override { return uint64_t{0}; }
  Status wait(uint64_t, int64_t) override { return {}; }

 private:
  static kernels::KvLayout layout_of(const ModelSpec& spec, int32_t page_size,
                                     encore::DType dtype) {
    return {static_cast<kernels::WeightType>(dtype), static_cast<int32_t>(spec.num_kv_heads),
            static_cast<int32_t>(spec.head_dim), page_size};
  }

  std::shared_ptr<ToyMemory> memory_;
  ToyCore core_;
  ToyOps ops_;
};

}  // namespace acme
