// The ops that the lowering asks for, each one or two kernel calls on the toy's core.
//
// What the lowering passes are device addresses. Kernels run on the device, so this is where the
// addresses become what the device works with: at() resolves each. A host address among them is an
// error of the op, not a crash. The counts of live rows are addresses too: a recorded kernel reads
// them when it runs, and so serves every step up to its bucket.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "encore/lowering/device.h"
#include "encore/lowering/ops.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/embedding.h"
#include "kernels/cpu/gather.h"
#include "kernels/cpu/kv_layout.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/sample.h"
#include "toy_core.h"
#include "toy_weights.h"

namespace acme {

using encore::ModelSpec;
using encore::WeightSource;
using lowering::AttentionLayer;
using lowering::Matrix;
using lowering::Rows;
using lowering::StepInputs;
using lowering::StepResults;
using lowering::Weight;

// What AttentionLayer::kv points to. Made by ToyDevice::describe_kv.
struct KvDescription {
  kernels::KvLayout layout;
  std::byte* pages = nullptr;  // device address
  int32_t num_pages = 0;       // of each layer, the lowering's sink page included
};

// The toy's own kernel: replaces "the token that row k sampled" by that token.
struct ResolveArgs {
  const int32_t* num_tokens;
  const int32_t* token_ids;
  const int32_t* previous_tokens;
  int32_t* input_tokens;
};
inline void resolve_tokens(const ResolveArgs& args, const kernels::Worker&) {
  for (int32_t i = 0; i < *args.num_tokens; ++i) {
    const int32_t id = args.token_ids[i];
    args.input_tokens[i] = id >= 0 ? id : args.previous_tokens[-1 - id];
  }
}

class ToyOps final : public lowering::Ops {
 public:
  explicit ToyOps(ToyCore& core) : core_(core), loader_(core.memory()) {}

  const encore::ModelInfo& model_info() const { return loader_.info(); }

  // See lowering::Device.
  Result<int64_t> reserve_workspace(const ModelSpec& spec,
                                    const lowering::WorkspaceRequest& request,
                                    int64_t* added_bytes) {
    const kernels::KvLayout layout{kernels::WeightType::kF32,
                                   static_cast<int32_t>(spec.num_kv_heads),
                                   static_cast<int32_t>(spec.head_dim), 16};
    const auto num_heads = static_cast<int32_t>(spec.num_heads);
    const auto& types = loader_.linear_types();
    const int64_t linear = aligned(static_cast<int64_t>(
        kernels::linear_workspace_bytes(types, request.max_tokens, loader_.max_inputs())));
    const int64_t attention =
        aligned(kernels::attention_workspace_bytes(layout, num_heads, request.max_context, 1));
    const auto angles = static_cast<int64_t>(2 * spec.rope.inv_freq.size());
    const int64_t cos_sin = aligned(request.max_tokens * angles * 4);
    const int64_t slots = aligned(int64_t{request.max_tokens} * 4);
    const auto scratch = static_cast<int64_t>(
        std::max({kernels::linear_scratch_bytes(types, loader_.max_inputs()),
                  kernels::attention_scratch_bytes(layout, num_heads),
                  kernels::sample_scratch_bytes(static_cast<int32_t>(spec.vocab_size))}));
    const int64_t total = linear + attention + cos_sin + slots + aligned(scratch);
    *added_bytes = 0;
    if (total > workspace_bytes_) {
      Workspace workspace;
      ENCORE_ASSIGN_OR_RETURN(workspace.block, core_.memory().allocate(total, "workspace"));
      workspace.linear = workspace.block->data();
      workspace.attention = workspace.linear + linear;
      workspace.cos_sin = workspace.attention + attention;
      workspace.slots = workspace.cos_sin + cos_sin;
      workspace.attention_bytes = attention;
      core_.set_scratch(workspace.slots + slots, scratch);
      *added_bytes = workspace.block->bytes();
      workspaces_.push_back(std::move(workspace));
      workspace_bytes_ = total;
    }
    return total;
  }

  Status fill_workspace(uint8_t value) {
    for (const Workspace& workspace : workspaces_) {
      ENCORE_RETURN_IF_ERROR(
          core_.memory().fill(workspace.block->data(), value, workspace.block->bytes()));
    }
    return {};
  }

  Result<std::unique_ptr<Weight>> load_linear(const WeightSource& source,
                                              std::span<const lowering::LinearPart> parts,
                                              lowering::Epilogue) override {
    return as_weight(loader_.linear(source, parts));
  }

  Result<std::unique_ptr<Weight>> load_embedding(const WeightSource& source,
                                                 size_t weight) override {
    return as_weight(loader_.embedding(source, weight));
  }

  Result<std::unique_ptr<Weight>> load_norm(const WeightSource& source, size_t weight) override {
    return as_weight(loader_.vector(source, weight));
  }

  Result<std::unique_ptr<Weight>> load_rope(const ModelSpec& spec) override {
    return as_weight(loader_.rope(spec.rope));
  }

  Status embed(const Weight& table, const StepInputs& step, const StepResults& results,
               Matrix y) override {
    ENCORE_RETURN_IF_ERROR(call<ResolveArgs>(
        resolve_tokens,
        {at(step.num_tokens), at(step.token_ids), at(results.tokens), at(results.input_tokens)}));
    const auto& embedding = as<EmbeddingWeight>(table);
    kernels::EmbeddingArgs args{};
    args.num_tokens = at(step.num_tokens);
    args.token_ids = at(results.input_tokens);
    args.weight = at(embedding.rows->data());
    args.row_bytes = embedding.row_bytes;
    args.type = embedding.type;
    args.vocab_size = embedding.vocab_size;
    args.hidden_size = embedding.hidden_size;
    args.y = at(y);
    args.y_stride = y.columns;
    return call(kernels::embedding, args);
  }

  // Where each new token's keys and values go, and its rotary angles: the same for all layers.
  Status plan_attention(const AttentionLayer& layer, const StepInputs& step) override {
    const auto& kv = *static_cast<const KvDescription*>(layer.kv);
    const auto& rope = as<RopeWeight>(*layer.rope);
    const Workspace& workspace = workspaces_.back();
    kernels::StepTablesArgs args{};
    args.num_tokens = at(step.num_tokens);
    args.num_requests = at(step.num_requests);
    args.positions = at(step.positions);
    args.q_start = at(step.q_start);
    args.page_start = at(step.page_start);
    args.page_ids = at(step.page_ids);
    args.inv_freq = reinterpret_cast<const float*>(at(rope.inv_freq->data()));
    args.attention_scale = rope.attention_scale;
    args.rotary_dim = rope.rotary_dim;
    args.page_size = kv.layout.page_size;
    args.num_pages = kv.num_pages;
    args.cos_sin = reinterpret_cast<float*>(at(workspace.cos_sin));
    args.slots = reinterpret_cast<int32_t*>(at(workspace.slots));
    return call(kernels::step_tables, args);
  }

  Status rms_norm(Matrix x, const Weight& weight, float eps, Rows rows, Matrix y) override {
    kernels::RmsNormArgs args{};
    args.num_rows = at(rows.live);
    args.x = at(x);
    args.x_stride = x.columns;
    args.weight = values(&weight);
    args.y = at(y);
    args.y_stride = y.columns;
    args.hidden_size = x.columns;
    args.eps = eps;
    return call(kernels::rms_norm_kernel(kLevel), args);
  }

  Status linear(Matrix x, const Weight& weight, lowering::Epilogue epilogue, Rows rows,
                Matrix y) override {
    const auto& linear = as<LinearWeight>(weight);
    kernels::LinearArgs args;
    args.x = at(x);
    args.x_stride = x.columns;
    args.num_rows = at(rows.live);
    args.max_rows = rows.maximum;
    args.num_parts = static_cast<int32_t>(linear.parts.size());
    for (size_t i = 0; i < linear.parts.size(); ++i) {
      args.parts[i] = linear.parts[i];
      args.parts[i].weight.data = at(static_cast<const std::byte*>(linear.parts[i].weight.data));
      args.parts[i].bias = at(linear.parts[i].bias);
    }
    args.y = at(y);
    args.y_stride = y.columns;
    args.epilogue = epilogue == lowering::Epilogue::kAdd       ? kernels::Epilogue::kAdd
                    : epilogue == lowering::Epilogue::kSiluMul ? kernels::Epilogue::kSiluMul
                                                               : kernels::Epilogue::kStore;
    args.workspace = at(workspaces_.back().linear);
    args.level = kLevel;
    return call(kernels::linear, args);
  }

  Status rope_kv_write(Matrix qkv, const AttentionLayer& layer, const StepInputs& step) override {
    const auto& rope = as<RopeWeight>(*layer.rope);
    const Workspace& workspace = workspaces_.back();
    kernels::RopeKvArgs args{};
    args.num_tokens = at(step.num_tokens);
    args.qkv = at(qkv);
    args.qkv_stride = qkv.columns;
    args.q_out = at(qkv);
    args.q_out_stride = qkv.columns;
    args.q_norm_weight = values(layer.q_norm);
    args.k_norm_weight = values(layer.k_norm);
    args.norm_eps = layer.spec->rms_norm_eps;
    args.pairing = rope.pairing;
    args.num_heads = static_cast<int32_t>(layer.spec->num_heads);
    args.rotary_dim = rope.rotary_dim;
    args.cos_sin = reinterpret_cast<const float*>(at(workspace.cos_sin));
    args.slots = reinterpret_cast<const int32_t*>(at(workspace.slots));
    args.kv = layer_pages(layer);
    return call(kernels::rope_kv_kernel(kLevel), args);
  }

  Status attention(Matrix qkv, const AttentionLayer& layer, const StepInputs& step,
                   Matrix y) override {
    const Workspace& workspace = workspaces_.back();
    kernels::AttentionArgs args{};
    args.num_requests = at(step.num_requests);
    args.q_start = at(step.q_start);
    args.kv_len = at(step.kv_len);
    args.page_start = at(step.page_start);
    args.page_ids = at(step.page_ids);
    args.q = at(qkv);
    args.q_stride = qkv.columns;
    args.out = at(y);
    args.out_stride = y.columns;
    args.kv = layer_pages(layer);
    args.num_heads = static_cast<int32_t>(layer.spec->num_heads);
    args.scale = 1.0F / std::sqrt(static_cast<float>(layer.spec->head_dim));
    args.workspace = reinterpret_cast<float*>(at(workspace.attention));
    args.workspace_bytes = workspace.attention_bytes;
    return call(kernels::attention_kernel(kLevel), args);
  }

  Status gather_logit_rows(Matrix x, const StepInputs& step, Matrix y) override {
    kernels::GatherRowsArgs args{};
    args.num_rows = at(step.num_logit_rows);
    args.rows = at(step.logit_rows);
    args.x = at(x);
    args.x_stride = x.columns;
    args.y = at(y);
    args.y_stride = y.columns;
    args.columns = x.columns;
    return call(kernels::gather_rows, args);
  }

  Status sample(Matrix logits, const StepInputs& step, const StepResults& results) override {
    // The kernels' structs are the host's, field by field.
    static_assert(sizeof(kernels::RowSampling) == sizeof(encore::RowSampling));
    static_assert(sizeof(kernels::TokenBias) == sizeof(encore::TokenBias));
    static_assert(sizeof(kernels::TokenCount) == sizeof(encore::TokenCount));
    kernels::SampleArgs args{};
    args.num_rows = at(step.num_logit_rows);
    args.logits = at(logits);
    args.logits_stride = logits.columns;
    args.num_valid_tokens = at(step.num_valid_tokens);
    args.params = reinterpret_cast<const kernels::RowSampling*>(at(step.sampling));
    args.bias_start = at(step.bias_start);
    args.biases = reinterpret_cast<const kernels::TokenBias*>(at(step.biases));
    args.history_start = at(step.history_start);
    args.history = reinterpret_cast<const kernels::TokenCount*>(at(step.history));
    args.logit_rows = at(step.logit_rows);
    args.token_ids = at(step.token_ids);
    args.input_tokens = at(results.input_tokens);
    args.tokens = at(results.tokens);
    args.row_status = at(results.row_status);
    args.token_logprobs = at(results.logprobs);
    args.top_tokens = at(results.top_tokens);
    args.top_logprobs = at(results.top_logprobs);
    args.max_logprobs = results.max_logprobs;
    return call(kernels::sample_kernel(kLevel), args);
  }

 private:
  static constexpr auto kLevel = kernels::IsaLevel::kGeneric;

  // What the ops of one step share. Captured programs point into it, so it never moves.
  struct Workspace {
    DeviceArray block;
    std::byte* linear = nullptr;
    std::byte* attention = nullptr;
    std::byte* cos_sin = nullptr;
    std::byte* slots = nullptr;
    int64_t attention_bytes = 0;
  };

  // Every Weight that reaches these ops came from their own loader.
  template <typename T>
  static const T& as(const Weight& weight) {
    return static_cast<const T&>(weight);
  }
  template <typename T>
  static Result<std::unique_ptr<Weight>> as_weight(Result<std::unique_ptr<T>> loaded) {
    if (!loaded.ok()) return loaded.status();
    return std::unique_ptr<Weight>(std::move(loaded).value());
  }
  static int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

  // Where the device finds what is at a device address.
  template <typename T>
  T* at(T* address) {
    T* resolved = core_.memory().resolve(address);
    if (resolved == nullptr && address != nullptr) foreign_ = address;
    return resolved;
  }
  float* at(const Matrix& matrix) { return at(static_cast<float*>(matrix.data)); }

  const float* values(const Weight* weight) {
    if (weight == nullptr) return nullptr;
    return reinterpret_cast<const float*>(at(as<VectorWeight>(*weight).values->data()));
  }

  kernels::KvPages layer_pages(const AttentionLayer& layer) {
    const auto& kv = *static_cast<const KvDescription*>(layer.kv);
    const int64_t page_bytes = kv.layout.page_bytes();
    return {at(kv.pages + int64_t{layer.layer} * kv.num_pages * page_bytes), page_bytes, kv.layout};
  }

  // Errors: kInternal if at() has met an address that the device does not know.
  template <typename Args>
  Status call(Kernel<Args> kernel, const Args& args) {
    if (foreign_ != nullptr) {
      foreign_ = nullptr;
      return encore::internal_error("an op was given an address that is not in the toy's memory");
    }
    core_.call(kernel, args);
    return {};
  }

  ToyCore& core_;
  WeightLoader loader_;
  std::vector<Workspace> workspaces_;  // the last is in use; earlier ones serve older programs
  int64_t workspace_bytes_ = 0;        // of the last
  const void* foreign_ = nullptr;
};

}  // namespace acme
