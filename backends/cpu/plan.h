// A recorded step: a flat list of kernel calls, everything in them resolved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "encore/lowering/device.h"
#include "kernels/cpu/worker.h"

namespace encore::cpu {

template <typename Args>
using Kernel = void (*)(const Args&, const kernels::Worker&);

// One kernel call. `args` points to a copy that lives as long as the plan.
struct PlanNode {
  void (*call)(const PlanNode& node, const kernels::Worker& worker) = nullptr;
  void (*kernel)() = nullptr;
  const void* args = nullptr;
  lowering::OpLabel label;
};

template <typename Args>
PlanNode make_node(Kernel<Args> kernel, const Args* args, lowering::OpLabel label = {}) {
  static_assert(std::is_trivially_copyable_v<Args>, "a plan keeps plain data");
  const auto call = [](const PlanNode& node, const kernels::Worker& worker) {
    reinterpret_cast<Kernel<Args>>(node.kernel)(*static_cast<const Args*>(node.args), worker);
  };
  return {call, reinterpret_cast<void (*)()>(kernel), args, label};
}

// Grows while it is recorded, is immutable afterwards. Replayed by a ThreadTeam in one parallel
// region, with a barrier after each node and nothing else in between.
class Plan final : public lowering::DeviceGraph {
 public:
  template <typename Args>
  void add(Kernel<Args> kernel, const Args& args, lowering::OpLabel label = {}) {
    std::byte* copy = allocate(sizeof(Args));
    std::memcpy(copy, &args, sizeof(Args));
    nodes_.push_back(make_node(kernel, reinterpret_cast<const Args*>(copy), label));
  }

  const std::vector<PlanNode>& nodes() const { return nodes_; }
  int32_t num_nodes() const override { return static_cast<int32_t>(nodes_.size()); }
  int64_t executable_bytes() const override {
    return static_cast<int64_t>(chunks_.size() * kChunkBytes +
                                nodes_.capacity() * sizeof(PlanNode));
  }

 private:
  static constexpr size_t kChunkBytes = 16384;

  // Arguments never move: nodes point to them.
  std::byte* allocate(size_t bytes) {
    const size_t rounded = (bytes + 15) / 16 * 16;
    if (chunks_.empty() || used_ + rounded > kChunkBytes) {
      chunks_.push_back(std::make_unique<std::byte[]>(kChunkBytes));
      used_ = 0;
    }
    std::byte* result = chunks_.back().get() + used_;
    used_ += rounded;
    return result;
  }

  std::vector<PlanNode> nodes_;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  size_t used_ = 0;
};

}  // namespace encore::cpu
