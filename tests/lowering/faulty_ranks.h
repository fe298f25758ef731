// Ranks on the CPU, one of which fails in the way that a test asks for.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "cpu_ranks.h"

namespace encore::testing {

struct Faults {
  int32_t rank = 1;
  std::atomic<int32_t> captures_to_fail{0};   // the next so many, as if memory had run out
  std::atomic<int64_t> allocation_limit{-1};  // bytes of one allocation; -1: none
  std::atomic<bool> launches_fail{false};     // the device is gone
  std::atomic<bool> launches_hang{false};     // until this is set to false again
  std::atomic<bool> wrong_tokens{false};      // results are overwritten on their way to the host
};

// Forwards everything to a device of the CPU backend, unless a fault is set.
class FaultyDevice final : public lowering::Device {
 public:
  FaultyDevice(std::unique_ptr<lowering::Device> inner, Faults& faults)
      : inner_(std::move(inner)), faults_(faults) {}

  lowering::Ops& ops() override { return inner_->ops(); }
  DType activation_dtype() const override { return inner_->activation_dtype(); }
  ModelInfo model_info() const override { return inner_->model_info(); }
  Result<std::unique_ptr<lowering::DeviceMemoryBlock>> allocate(int64_t bytes,
                                                                const std::string& name) override {
    const int64_t limit = faults_.allocation_limit;
    if (limit >= 0 && bytes > limit) return out_of_memory(name + " does not fit");
    return inner_->allocate(bytes, name);
  }
  Result<std::unique_ptr<lowering::DeviceMemoryBlock>> allocate_host(
      int64_t bytes, const std::string& name) override {
    return inner_->allocate_host(bytes, name);
  }
  int64_t kv_page_bytes(const ModelSpec& spec, int32_t page_size, DType dtype) const override {
    return inner_->kv_page_bytes(spec, page_size, dtype);
  }
  Result<std::shared_ptr<void>> describe_kv(const ModelSpec& spec, std::byte* pages,
                                            int32_t num_pages, int32_t page_size,
                                            DType dtype) override {
    return inner_->describe_kv(spec, pages, num_pages, page_size, dtype);
  }
  Result<int64_t> reserve_workspace(const ModelSpec& spec,
                                    const lowering::WorkspaceRequest& request,
                                    int64_t* added_bytes) override {
    return inner_->reserve_workspace(spec, request, added_bytes);
  }
  Status fill_workspace(uint8_t value) override { return inner_->fill_workspace(value); }
  Status copy_in(std::byte* device, const std::byte* host, int64_t bytes) override {
    return inner_->copy_in(device, host, bytes);
  }
  Status copy_out(std::byte* host, const std::byte* device, int64_t bytes) override {
    ENCORE_RETURN_IF_ERROR(inner_->copy_out(host, device, bytes));
    if (faults_.wrong_tokens) host[0] ^= std::byte{1};
    return {};
  }
  Status copy(std::byte* destination, const std::byte* source, int64_t bytes) override {
    return inner_->copy(destination, source, bytes);
  }
  Status fill(std::byte* device, uint8_t value, int64_t bytes) override {
    return inner_->fill(device, value, bytes);
  }
  Status begin_capture() override { return inner_->begin_capture(); }
  Result<std::unique_ptr<lowering::DeviceGraph>> end_capture() override {
    auto graph = inner_->end_capture();
    if (faults_.captures_to_fail <= 0) return graph;
    --faults_.captures_to_fail;
    return out_of_memory("no room for the graph");
  }
  Status launch(lowering::DeviceGraph& graph) override {
    if (faults_.launches_fail) return internal_error("the device has fallen off the bus");
    if (faults_.launches_hang) {
      while (faults_.launches_hang) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return internal_error("woken too late");
    }
    return inner_->launch(graph);
  }
  Result<uint64_t> mark() override { return inner_->mark(); }
  Status wait(uint64_t mark, int64_t timeout_us) override { return inner_->wait(mark, timeout_us); }

 private:
  std::unique_ptr<lowering::Device> inner_;
  Faults& faults_;
};

// The faults outlive the group.
class FaultyRanks final : public lowering::RankGroup {
 public:
  FaultyRanks(std::unique_ptr<lowering::RankGroup> inner, Faults& faults)
      : inner_(std::move(inner)), faults_(faults) {}
  int32_t size() const override { return inner_->size(); }
  Result<std::unique_ptr<lowering::Device>> make_device(int32_t rank) override {
    ENCORE_ASSIGN_OR_RETURN(std::unique_ptr<lowering::Device> device, inner_->make_device(rank));
    if (rank != faults_.rank) return device;
    return std::unique_ptr<lowering::Device>(
        std::make_unique<FaultyDevice>(std::move(device), faults_));
  }
  void abort() override { inner_->abort(); }

 private:
  std::unique_ptr<lowering::RankGroup> inner_;
  Faults& faults_;
};

}  // namespace encore::testing
