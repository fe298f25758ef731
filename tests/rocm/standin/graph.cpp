#include "graph.h"

#include <set>

#include "capture.h"
#include "misuse.h"
#include "stream.h"

namespace encore::standin {

Handles<Graph>& graphs() {
  static auto& graphs = *new Handles<Graph>;
  return graphs;
}

Handles<Executable>& executables() {
  static auto& executables = *new Handles<Executable>;
  return executables;
}

uint64_t executable_bytes(int device) {
  uint64_t bytes = 0;
  executables().each([&](const Executable& executable) {
    if (executable.device == device) bytes += executable_bytes_of(executable.operations.size());
  });
  return bytes;
}

bool comes_before(const Node* node, const std::vector<Node*>& from) {
  std::vector<Node*> open = from;
  std::set<const Node*> seen;
  while (!open.empty()) {
    Node* next = open.back();
    open.pop_back();
    if (next == node) return true;
    if (!seen.insert(next).second) continue;
    open.insert(open.end(), next->after.begin(), next->after.end());
  }
  return false;
}

hipError_t launch(Executable& executable, Stream& stream) {
  if (executable.device != stream.device) {
    note_misuse("a graph captured on device " + std::to_string(executable.device) +
                " is launched on device " + std::to_string(stream.device));
    return hipErrorInvalidValue;
  }
  // One launch of an executable at a time.
  if (executable.launched != nullptr && !executable.launched->done &&
      executable.launched->stream != &stream) {
    push(stream, std::make_shared<WaitOperation>(executable.launched));
  }
  for (const std::shared_ptr<Operation>& operation : executable.operations) {
    auto own = operation->for_launch();
    const hipError_t error = enqueue(stream, own == nullptr ? operation : own);
    if (error != hipSuccess) return error;
  }
  if (!stream.queue.empty()) executable.launched = stream.queue.back().completion;
  return hipSuccess;
}

}  // namespace encore::standin
