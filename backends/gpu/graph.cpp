#include "graph.h"

#include <algorithm>
#include <string>

#include "gpu_status.h"

namespace encore::gpu {
namespace {

int64_t free_bytes() {
  size_t free = 0;
  size_t total = 0;
  return gpuMemGetInfo(&free, &total) == gpuSuccess ? static_cast<int64_t>(free) : 0;
}

}  // namespace

Result<std::unique_ptr<GpuGraph>> GpuGraph::create(gpuGraph_t graph, gpuStream_t stream,
                                                   MemoryAccount& account) {
  std::unique_ptr<GpuGraph> made(new GpuGraph(stream));
  size_t num_nodes = 0;
  ENCORE_RETURN_IF_ERROR(
      gpu_status(gpuGraphGetNodes(graph, nullptr, &num_nodes), "counting a graph's nodes"));
  made->num_nodes_ = static_cast<int32_t>(num_nodes);
  if (num_nodes == 0) return made;
  // The driver says what an executable takes only by what is free before and after. It takes memory
  // in pieces that several graphs share, so one graph's figure may be zero; the sum is right.
  const int64_t before = free_bytes();
  gpuError_t error =
      account.next_fails() ? gpuErrorOutOfMemory : gpuGraphInstantiate(&made->executable_, graph);
  if (error == gpuSuccess) error = gpuGraphUpload(made->executable_, stream);
  if (error == gpuErrorOutOfMemory) {
    static_cast<void>(gpuGetLastError());
    return no_device_memory("a graph of " + std::to_string(num_nodes) + " nodes");
  }
  ENCORE_RETURN_IF_ERROR(gpu_status(error, "instantiating a graph"));
  made->executable_bytes_ = std::max<int64_t>(before - free_bytes(), 0);
  return made;
}

// HIP does not say what becomes of a launch that has not ended; a step that failed in its midst may
// have left one.
GpuGraph::~GpuGraph() {
  if (executable_ == nullptr) return;
  if (launched_) static_cast<void>(gpu_status(gpuStreamSynchronize(stream_), "ending a graph"));
  static_cast<void>(gpuGraphExecDestroy(executable_));
}

Status GpuGraph::launch() {
  if (executable_ == nullptr) return {};
  launched_ = true;
  return gpu_status(gpuGraphLaunch(executable_, stream_), "launching a graph");
}

}  // namespace encore::gpu
