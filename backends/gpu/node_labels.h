// Which op each node of a captured graph belongs to.
#pragma once

#include <cstddef>
#include <vector>

#include "encore/lowering/ops.h"
#include "vendor.h"

namespace encore::gpu {

class NodeLabels {
 public:
  // What the stream captures from now on is for this op. REQUIRES: a capture is open.
  void begin_op(gpuStream_t stream, lowering::OpLabel label);
  // Null for nodes before the first op, and for all where the run-time could not count.
  const lowering::OpLabel* of_node(size_t node) const;

 private:
  struct Run {
    size_t first_node = 0;
    lowering::OpLabel label;
  };
  std::vector<Run> runs_;  // by first_node
};

}  // namespace encore::gpu
