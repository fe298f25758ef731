// The ops that the lowering asks for, each one or two kernel calls on the toy's core.
//
// What the lowering passes are device addresses. The arguments of a kernel are seen by the device
// only, so here is where addresses are resolved: the "device pointers" of the toy's instruction
// set. A host address among them is an error of the op, not a crash.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "encore/lowering/device.h"
#include "encore/lowering/ops.h"
#include "kernels/cpu/kv_layout.h"
#include "toy_core.h"
#include "toy_weights.h"

namespace acme {

// What AttentionLayer::kv points to. Made by ToyDevice::describe_kv.
struct KvDescription {
  encore::kernels::KvLayout layout;
  std::byte* pages = nullptr;  // device address
  int32_t num_pages = 0;       // of each layer, the lowering's sink page included
};

class ToyOps final : public encore::lowering::Ops {
 public:
  explicit ToyOps(ToyCore& core) : core_(core), loader_(core.memory()) {}

  const encore::ModelInfo& model_info() const { return loader_.info(); }
  // See lowering::Device.
  encore::Result<int64_t> reserve_workspace(const encore::ModelSpec& spec,
                                            const encore::lowering::WorkspaceRequest& request,
                                            int64_t* added_bytes);
  encore::Status fill_workspace(uint8_t value);

  encore::Result<std::unique_ptr<encore::lowering::Weight>> load_linear(
      const encore::WeightSource& source, std::span<const encore::lowering::LinearPart> parts,
      encore::lowering::Epilogue epilogue) override;
  encore::Result<std::unique_ptr<encore::lowering::Weight>> load_embedding(
      const encore::WeightSource& source, size_t weight) override;
  encore::Result<std::unique_ptr<encore::lowering::Weight>> load_norm(
      const encore::WeightSource& source, size_t weight) override;
  encore::Result<std::unique_ptr<encore::lowering::Weight>> load_rope(
      const encore::ModelSpec& spec) override;

  encore::Status embed(const encore::lowering::Weight& table,
                       const encore::lowering::StepInputs& step,
                       const encore::lowering::StepResults& results,
                       encore::lowering::Matrix y) override;
  encore::Status plan_attention(const encore::lowering::AttentionLayer& layer,
                                const encore::lowering::StepInputs& step) override;
  encore::Status rms_norm(encore::lowering::Matrix x, const encore::lowering::Weight& weight,
                          float eps, encore::lowering::Rows rows,
                          encore::lowering::Matrix y) override;
  encore::Status linear(encore::lowering::Matrix x, const encore::lowering::Weight& weight,
                        encore::lowering::Epilogue epilogue, encore::lowering::Rows rows,
                        encore::lowering::Matrix y) override;
  encore::Status rope_kv_write(encore::lowering::Matrix qkv,
                               const encore::lowering::AttentionLayer& layer,
                               const encore::lowering::StepInputs& step) override;
  encore::Status attention(encore::lowering::Matrix qkv,
                           const encore::lowering::AttentionLayer& layer,
                           const encore::lowering::StepInputs& step,
                           encore::lowering::Matrix y) override;
  encore::Status gather_logit_rows(encore::lowering::Matrix x,
                                   const encore::lowering::StepInputs& step,
                                   encore::lowering::Matrix y) override;
  encore::Status sample(encore::lowering::Matrix logits, const encore::lowering::StepInputs& step,
                        const encore::lowering::StepResults& results) override;

 private:
  // What the ops of one step share. Captured programs point into it, so it never moves.
  struct Workspace {
    DeviceArray block;
    std::byte* linear = nullptr;
    std::byte* attention = nullptr;
    std::byte* cos_sin = nullptr;
    std::byte* slots = nullptr;
    int64_t attention_bytes = 0;
  };

  // Where the device finds what is at a device address.
  template <typename T>
  T* at(T* address) {
    T* resolved = core_.memory().resolve(address);
    if (resolved == nullptr && address != nullptr) foreign_ = address;
    return resolved;
  }
  // A matrix of activations, read or written.
  float* at(const encore::lowering::Matrix& matrix) { return at(static_cast<float*>(matrix.data)); }
  const float* values(const encore::lowering::Weight* weight);
  encore::kernels::KvPages layer_pages(const encore::lowering::AttentionLayer& layer);

  // Errors: kInternal if at() met an address since the last call that the device does not know.
  template <typename Args>
  encore::Status call(Kernel<Args> kernel, const Args& args);

  ToyCore& core_;
  WeightLoader loader_;
  std::vector<Workspace> workspaces_;  // the last is in use; earlier ones serve older programs
  int64_t workspace_bytes_ = 0;        // of the last
  const void* foreign_ = nullptr;
};

}  // namespace acme
