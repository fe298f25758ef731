// Graphs and what is made of them to be launched.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "handles.h"
#include "operation.h"

struct hipGraphNode {
  std::shared_ptr<encore::standin::Operation> operation;
  std::vector<hipGraphNode*> after;  // nodes of the same graph
};

struct ihipGraph {
  int device = 0;
  std::vector<std::unique_ptr<hipGraphNode>> nodes;  // each behind those that it comes after
};

struct hipGraphExec {
  int device = 0;
  std::vector<std::shared_ptr<encore::standin::Operation>> operations;
  std::shared_ptr<encore::standin::Completion> launched;  // its last launch's end; null: none yet
};

namespace encore::standin {

using Graph = ihipGraph;
using Node = hipGraphNode;
using Executable = hipGraphExec;

Handles<Graph>& graphs();
Handles<Executable>& executables();

// Device memory that all executables of a device take, or one with so many operations: a page for
// each. HIP says no figure; that there is one is what matters.
uint64_t executable_bytes(int device);
inline uint64_t executable_bytes_of(size_t num_operations) { return 4096 * num_operations; }

// Whether `node` is one of `from` or comes before one of them.
bool comes_before(const Node* node, const std::vector<Node*>& from);

// Enqueues all operations, or adds them to the stream's capture.
hipError_t launch(Executable& executable, Stream& stream);

}  // namespace encore::standin
