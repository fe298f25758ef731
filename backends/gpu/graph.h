// A stream capture, made executable.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "encore/lowering/device.h"
#include "encore/status.h"
#include "memory.h"
#include "node_labels.h"
#include "vendor.h"

namespace encore::gpu {

class GpuGraph final : public lowering::DeviceGraph {
 public:
  // Instantiates `graph` (which stays the caller's) and puts it on the device of `stream`, where it
  // will be launched, and which it is outlived by. The account counts
  // it as an allocation, without its bytes: see executable_bytes().
  // Errors: kOutOfMemory; kInternal.
  static Result<std::unique_ptr<GpuGraph>> create(gpuGraph_t graph, gpuStream_t stream,
                                                  MemoryAccount& account);
  ~GpuGraph() override;
  GpuGraph(const GpuGraph&) = delete;
  GpuGraph& operator=(const GpuGraph&) = delete;

  int64_t executable_bytes() const override { return executable_bytes_; }
  int32_t num_nodes() const override { return num_nodes_; }

  // What the nodes are for.
  const NodeLabels& labels() const { return labels_; }
  void set_labels(NodeLabels labels) { labels_ = std::move(labels); }

  Status launch();

 private:
  explicit GpuGraph(gpuStream_t stream) : stream_(stream) {}

  gpuStream_t stream_;
  bool launched_ = false;
  gpuGraphExec_t executable_ = nullptr;
  int64_t executable_bytes_ = 0;
  int32_t num_nodes_ = 0;
  NodeLabels labels_;
};

}  // namespace encore::gpu
