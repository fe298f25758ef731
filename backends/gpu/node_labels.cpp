#include "node_labels.h"

#include <algorithm>

namespace encore::gpu {

void NodeLabels::begin_op(gpuStream_t stream, lowering::OpLabel label) {
  gpuGraph_t graph = nullptr;
  size_t num_nodes = 0;
  if (gpuCapturedGraph(stream, &graph) != gpuSuccess || graph == nullptr ||
      gpuGraphGetNodes(graph, nullptr, &num_nodes) != gpuSuccess) {
    static_cast<void>(gpuGetLastError());
    return;
  }
  runs_.push_back({num_nodes, label});
}

const lowering::OpLabel* NodeLabels::of_node(size_t node) const {
  const auto next =
      std::upper_bound(runs_.begin(), runs_.end(), node,
                       [](size_t value, const Run& run) { return value < run.first_node; });
  return next == runs_.begin() ? nullptr : &std::prev(next)->label;
}

}  // namespace encore::gpu
