// The lowering's ops on a GPU: each enqueues one kernel or a fixed few.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "blas.h"
#include "encore/backend.h"
#include "encore/lowering/collectives.h"
#include "encore/lowering/device.h"
#include "encore/lowering/ops.h"
#include "kernels/gpu/decode_linear.h"
#include "kernels/gpu/device_traits.h"
#include "linear_choice.h"
#include "memory.h"
#include "node_labels.h"
#include "step_attention.h"
#include "vendor.h"
#include "weight_upload.h"
#include "weights.h"

namespace encore::gpu {

struct OpsSettings {
  gpuStream_t stream = nullptr;
  DeviceTraits device;
  bool overlap = true;
  int32_t load_threads = 0;
  std::filesystem::path tuning_folder;  // of the fastest kernels; empty: kept nowhere
};

class GpuOps final : public lowering::Ops {
 public:
  // The account outlives the ops; the stream is the caller's.
  GpuOps(const OpsSettings& settings, std::unique_ptr<Blas> blas, MemoryAccount& account);

  const ModelInfo& model_info() const { return info_; }
  // How these ops meet those of other ranks. Before anything is enqueued; never for the only rank.
  void meet_through(std::shared_ptr<lowering::Collectives> collectives) {
    collectives_ = std::move(collectives);
  }
  const std::shared_ptr<lowering::Collectives>& collectives() const { return collectives_; }
  // While set, ops name the nodes that they capture.
  void label_into(NodeLabels* labels) { node_labels_ = labels; }
  void label(lowering::OpLabel label) override {
    if (node_labels_ != nullptr) node_labels_->begin_op(settings_.stream, label);
  }
  // See lowering::Device. Also chooses kernels for products, by timing, when sizes grow.
  Result<int64_t> reserve_workspace(const ModelSpec& spec,
                                    const lowering::WorkspaceRequest& request,
                                    int64_t* added_bytes);
  Status fill_workspace(uint8_t value);

  Result<std::unique_ptr<lowering::Weight>> load_linear(const WeightSource& source,
                                                        std::span<const lowering::LinearPart> parts,
                                                        lowering::Epilogue epilogue) override;
  Result<std::unique_ptr<lowering::Weight>> load_embedding(const WeightSource& source,
                                                           size_t weight) override;
  Result<std::unique_ptr<lowering::Weight>> load_norm(const WeightSource& source,
                                                      size_t weight) override;
  Result<std::unique_ptr<lowering::Weight>> load_rope(const ModelSpec& spec) override;
  Status finish_loading() override;

  Status embed(const lowering::Weight& table, const lowering::StepInputs& step,
               const lowering::StepResults& results, lowering::Matrix y) override;
  Status plan_attention(const lowering::AttentionLayer& layer,
                        const lowering::StepInputs& step) override;
  Status rms_norm(lowering::Matrix x, const lowering::Weight& weight, float eps,
                  lowering::Rows rows, lowering::Matrix y) override;
  Status linear(lowering::Matrix x, const lowering::Weight& weight, lowering::Epilogue epilogue,
                lowering::Rows rows, lowering::Matrix y) override;
  Status linear_add_norm(lowering::Matrix x, const lowering::Weight& weight, lowering::Rows rows,
                         lowering::Matrix y, const lowering::Weight& norm, float eps,
                         lowering::Matrix normed) override;
  Status rope_kv_write(lowering::Matrix qkv, const lowering::AttentionLayer& layer,
                       const lowering::StepInputs& step) override;
  Status attention(lowering::Matrix qkv, const lowering::AttentionLayer& layer,
                   const lowering::StepInputs& step, lowering::Matrix y) override;
  Status rope_attention(lowering::Matrix qkv, const lowering::AttentionLayer& layer,
                        const lowering::StepInputs& step, lowering::Matrix y) override;
  Status gather_logit_rows(lowering::Matrix x, const lowering::StepInputs& step,
                           lowering::Matrix y) override;
  Status all_reduce(lowering::Matrix x, lowering::Rows rows) override;
  Status all_reduce_norm(lowering::Matrix x, lowering::Rows rows, const lowering::Weight& norm,
                         float eps, lowering::Matrix normed) override;
  Status all_gather(lowering::Matrix part, lowering::Rows rows, lowering::Matrix whole) override;
  Status sample(lowering::Matrix logits, const lowering::StepInputs& step,
                const lowering::StepResults& results) override;

 private:
  // Scratch of all ops of a step. Graphs remember the addresses, so none is ever freed or moved.
  struct Workspace {
    std::unique_ptr<lowering::DeviceMemoryBlock> block;
    float* cos_sin = nullptr;
    int32_t* slots = nullptr;
    void* gate_up = nullptr;
    float* sumsq = nullptr;
    void* attention = nullptr;
    void* sample = nullptr;
  };
  // A matrix whose rows still await division by their root mean square; see linear_add_norm().
  struct DeferredNorm {
    const void* matrix = nullptr;
    int32_t num_sumsq = 0;
    float eps = 0.0F;
  };

  Launch launch() const { return {settings_.stream, settings_.overlap, settings_.device.lanes}; }
  const Workspace& workspace() const { return workspaces_.back(); }
  Result<WeightUploader*> uploader(const WeightSource& source);
  size_t class_of(const LinearWeight& weight);
  Status stream_linear(lowering::Matrix x, const LinearWeight& weight, int32_t variant,
                       DecodeLinearProblem problem, int32_t* num_sumsq_out);
  Status gated_linear(lowering::Matrix x, const LinearWeight& weight, int32_t variant,
                      lowering::Rows rows, lowering::Matrix y);
  Status split_linear(lowering::Matrix x, const LinearWeight& weight, int32_t variant,
                      lowering::Rows rows, lowering::Matrix y);
  Status tiled_linear(lowering::Matrix x, const LinearWeight& weight, int32_t variant,
                      lowering::Rows rows, lowering::Matrix y);
  Status blas_linear(lowering::Matrix x, const LinearWeight& weight, lowering::Rows rows,
                     lowering::Matrix y);
  StepAttention step_attention() const;

  OpsSettings settings_;
  MemoryAccount& account_;
  std::unique_ptr<Blas> blas_;
  std::unique_ptr<lowering::DeviceMemoryBlock> blas_workspace_;
  std::unique_ptr<lowering::DeviceMemoryBlock> slab_;
  std::unique_ptr<WeightUploader> uploader_;  // while weights are loaded
  std::vector<LinearGroup> groups_;
  LinearChoice choice_;
  ModelInfo info_;
  std::vector<Workspace> workspaces_;
  int64_t workspace_bytes_ = 0;  // of the last workspace
  DeferredNorm deferred_;
  NodeLabels* node_labels_ = nullptr;
  std::shared_ptr<lowering::Collectives> collectives_;  // null: the only rank
};

}  // namespace encore::gpu
