#include "encore/lowering/layer_stack.h"

#include <array>
#include <string>
#include <utility>

#include "encore/dtype.h"

namespace encore::lowering {
namespace {

// Stages of a step, for lifetimes. The stages of a layer repeat; one layer's stand for all.
enum Stage : int32_t {
  kEmbed,
  kQkv,
  kRope,
  kAttention,
  kAttentionOutput,
  kGateUp,
  kDown,
  kGather,
  kFinalNorm,
  kHead,
  kGatherLogits,
  kSample,
};

// Finds weights by name and counts the bytes loaded.
class WeightFinder {
 public:
  WeightFinder(const WeightSource& source, const std::function<bool(int64_t, int64_t)>& progress)
      : source_(source), progress_(progress) {
    for (const WeightInfo& info : source.weights()) total_bytes_ += info.bytes;
  }

  Result<size_t> find(const std::string& name) {
    const int64_t index = find_weight(source_, name);
    if (index < 0) return not_found("the model has no weight '" + name + "'");
    loaded_bytes_ += source_.weights()[static_cast<size_t>(index)].bytes;
    return static_cast<size_t>(index);
  }

  Status report() const {
    if (progress_ && !progress_(loaded_bytes_, total_bytes_)) {
      return cancelled("loading was cancelled");
    }
    return {};
  }

 private:
  const WeightSource& source_;
  const std::function<bool(int64_t, int64_t)>& progress_;
  int64_t total_bytes_ = 0;
  int64_t loaded_bytes_ = 0;
};

Result<LinearPart> find_part(WeightFinder& finder, const std::string& name, bool has_bias) {
  LinearPart part;
  ENCORE_ASSIGN_OR_RETURN(part.weight, finder.find(name + ".weight"));
  if (has_bias) {
    ENCORE_ASSIGN_OR_RETURN(const size_t bias, finder.find(name + ".bias"));
    part.bias = static_cast<int64_t>(bias);
  }
  return part;
}

// One linear over the named weights, side by side.
Result<std::unique_ptr<Weight>> load_fused(Ops& ops, const WeightSource& source,
                                           WeightFinder& finder, const std::string& prefix,
                                           std::initializer_list<const char*> names, bool has_bias,
                                           Epilogue epilogue) {
  std::array<LinearPart, 3> parts;
  size_t count = 0;
  for (const char* name : names) {
    ENCORE_ASSIGN_OR_RETURN(parts[count++], find_part(finder, prefix + name, has_bias));
  }
  return ops.load_linear(source, std::span(parts.data(), count), epilogue);
}

Result<std::unique_ptr<Weight>> load_norm(Ops& ops, const WeightSource& source,
                                          WeightFinder& finder, const std::string& name) {
  ENCORE_ASSIGN_OR_RETURN(const size_t index, finder.find(name));
  return ops.load_norm(source, index);
}

}  // namespace

ActivationPlan::ActivationPlan(const ModelSpec& spec, const Shard& shard, DType activation_dtype,
                               int32_t tokens, int32_t logit_rows) {
  const int64_t width = dtype_info(activation_dtype).block_bytes;
  const auto add = [&](const char* name, Matrix Activations::*member, int32_t rows, int64_t columns,
                       int64_t element_bytes, Stage first, Stage last) {
    const int32_t id = arena_.add(name, rows * columns * element_bytes, first, last);
    entries_.push_back({member, rows, static_cast<int32_t>(columns), id});
  };
  using A = Activations;
  add("hidden", &A::hidden, tokens, spec.hidden_size, width, kEmbed, kGather);
  add("normed", &A::normed, tokens, spec.hidden_size, width, kEmbed, kDown);
  add("qkv", &A::qkv, tokens, spec.q_size() + 2 * spec.kv_size(), width, kQkv, kAttention);
  add("attended", &A::attended, tokens, spec.q_size(), width, kAttention, kAttentionOutput);
  add("gated", &A::gated, tokens, spec.intermediate_size, width, kGateUp, kDown);
  Stage head_begins = kGather;
  if (logit_rows < tokens) {
    head_begins = kAttentionOutput;
    add("head_attended", &A::head_attended, logit_rows, spec.q_size(), width, head_begins,
        kAttentionOutput);
    add("head_gated", &A::head_gated, logit_rows, spec.intermediate_size, width, kGateUp, kDown);
  }
  add("head_hidden", &A::head_hidden, logit_rows, spec.hidden_size, width, head_begins, kFinalNorm);
  add("head_normed", &A::head_normed, logit_rows, spec.hidden_size, width, head_begins, kHead);
  if (shard.num_ranks > 1) {
    add("part logits", &A::part_logits, logit_rows, head_rows(spec, shard), sizeof(float), kHead,
        kGatherLogits);
  }
  add("logits", &A::logits, logit_rows, logit_columns(spec, shard), sizeof(float), kHead, kSample);
  arena_.solve();
}

Activations ActivationPlan::at(std::byte* base) const {
  Activations activations;
  for (const Entry& entry : entries_) {
    activations.*entry.member = {base + arena_.offset(entry.id), entry.rows, entry.columns};
  }
  if (activations.part_logits.data == nullptr) activations.part_logits = activations.logits;
  return activations;
}

Result<std::unique_ptr<LayerStack>> LayerStack::load(
    Ops& ops, const ModelSpec& spec, const Shard& shard, const WeightSource& source,
    const std::function<bool(int64_t, int64_t)>& progress) {
  std::unique_ptr<LayerStack> stack(new LayerStack(spec, shard));
  const Epilogue closing = stack->closing_epilogue();
  WeightFinder finder(source, progress);
  ENCORE_ASSIGN_OR_RETURN(const size_t embedding, finder.find("embed.weight"));
  ENCORE_ASSIGN_OR_RETURN(stack->embedding_, ops.load_embedding(source, embedding));
  ENCORE_ASSIGN_OR_RETURN(stack->rope_, ops.load_rope(stack->spec_));
  ENCORE_RETURN_IF_ERROR(finder.report());
  for (int64_t i = 0; i < spec.num_layers; ++i) {
    const std::string prefix = "layers." + std::to_string(i) + ".";
    const auto norm = [&](const char* name) {
      return load_norm(ops, source, finder, prefix + name + ".weight");
    };
    const auto linear = [&](std::initializer_list<const char*> names, bool bias,
                            Epilogue epilogue) {
      return load_fused(ops, source, finder, prefix, names, bias, epilogue);
    };
    Layer layer;
    ENCORE_ASSIGN_OR_RETURN(layer.attention_norm, norm("attention_norm"));
    ENCORE_ASSIGN_OR_RETURN(layer.qkv, linear({"q", "k", "v"}, spec.qkv_bias, Epilogue::kNone));
    if (spec.qk_norm) {
      ENCORE_ASSIGN_OR_RETURN(layer.q_norm, norm("q_norm"));
      ENCORE_ASSIGN_OR_RETURN(layer.k_norm, norm("k_norm"));
    }
    ENCORE_ASSIGN_OR_RETURN(layer.o, linear({"o"}, spec.attention_output_bias, closing));
    ENCORE_ASSIGN_OR_RETURN(layer.mlp_norm, norm("mlp_norm"));
    ENCORE_ASSIGN_OR_RETURN(layer.gate_up,
                            linear({"gate", "up"}, spec.mlp_bias, Epilogue::kSiluMul));
    ENCORE_ASSIGN_OR_RETURN(layer.down, linear({"down"}, spec.mlp_bias, closing));
    stack->layers_.push_back(std::move(layer));
    ENCORE_RETURN_IF_ERROR(finder.report());
  }
  ENCORE_ASSIGN_OR_RETURN(stack->norm_, load_norm(ops, source, finder, "norm.weight"));
  const char* head = spec.tied_embeddings ? "embed" : "head";
  ENCORE_ASSIGN_OR_RETURN(stack->head_,
                          load_fused(ops, source, finder, "", {head}, false, Epilogue::kLogits));
  ENCORE_RETURN_IF_ERROR(ops.finish_loading());
  ENCORE_RETURN_IF_ERROR(finder.report());
  return stack;
}

Status LayerStack::embed(Ops& ops, const Step& step) const {
  ops.label({"embed"});
  ENCORE_RETURN_IF_ERROR(
      ops.embed(*embedding_, step.inputs, step.results, step.activations.hidden));
  ops.label({"plan"});
  ENCORE_RETURN_IF_ERROR(
      ops.plan_attention({step.kv, 0, &spec_, nullptr, nullptr, rope_.get()}, step.inputs));
  const Activations& a = step.activations;
  ops.label({"norm"});
  return ops.rms_norm(a.hidden, *layers_.front().attention_norm, spec_.rms_norm_eps,
                      {step.inputs.num_tokens, a.hidden.rows}, a.normed);
}

Status LayerStack::layer(Ops& ops, const Step& step, int32_t index) const {
  ENCORE_RETURN_IF_ERROR(attend(ops, step, index));
  const Activations& a = step.activations;
  return close_layer(ops, a, {step.inputs.num_tokens, a.hidden.rows}, index);
}

Status LayerStack::attend(Ops& ops, const Step& step, int32_t index) const {
  const Layer& layer = layers_[static_cast<size_t>(index)];
  const Activations& a = step.activations;
  const Rows tokens{step.inputs.num_tokens, a.hidden.rows};
  const AttentionLayer attention{step.kv,    index, &spec_, layer.q_norm.get(), layer.k_norm.get(),
                                 rope_.get()};
  ops.label({"qkv", index});
  ENCORE_RETURN_IF_ERROR(ops.linear(a.normed, *layer.qkv, Epilogue::kNone, tokens, a.qkv));
  return ops.rope_attention(a.qkv, attention, step.inputs, a.attended);
}

Status LayerStack::close_layer(Ops& ops, const Activations& a, Rows rows, int32_t index) const {
  const Layer& layer = layers_[static_cast<size_t>(index)];
  ops.label({"o", index});
  ENCORE_RETURN_IF_ERROR(close_half(ops, a, rows, a.attended, *layer.o, layer.mlp_norm.get()));
  ops.label({"gate_up", index});
  ENCORE_RETURN_IF_ERROR(ops.linear(a.normed, *layer.gate_up, Epilogue::kSiluMul, rows, a.gated));
  // Each layer leaves the next one's input behind.
  const size_t next = static_cast<size_t>(index) + 1;
  const Weight* norm = next < layers_.size() ? layers_[next].attention_norm.get() : nullptr;
  ops.label({"down", index});
  return close_half(ops, a, rows, a.gated, *layer.down, norm);
}

Status LayerStack::close_half(Ops& ops, const Activations& a, Rows rows, Matrix x,
                              const Weight& weight, const Weight* norm) const {
  const float eps = spec_.rms_norm_eps;
  if (shard_.num_ranks == 1 && norm != nullptr) {
    return ops.linear_add_norm(x, weight, rows, a.hidden, *norm, eps, a.normed);
  }
  ENCORE_RETURN_IF_ERROR(ops.linear(x, weight, closing_epilogue(), rows, a.hidden));
  if (shard_.num_ranks == 1) return {};
  if (norm == nullptr) return ops.all_reduce(a.hidden, rows);
  return ops.all_reduce_norm(a.hidden, rows, *norm, eps, a.normed);
}

Status LayerStack::head(Ops& ops, const Step& step) const {
  const Activations& a = step.activations;
  ops.label({"gather"});
  ENCORE_RETURN_IF_ERROR(ops.gather_logit_rows(a.hidden, step.inputs, a.head_hidden));
  return sample(ops, step);
}

Status LayerStack::sample(Ops& ops, const Step& step) const {
  const Activations& a = step.activations;
  const Rows rows{step.inputs.num_logit_rows, a.logits.rows};
  ops.label({"norm"});
  ENCORE_RETURN_IF_ERROR(
      ops.rms_norm(a.head_hidden, *norm_, spec_.rms_norm_eps, rows, a.head_normed));
  ops.label({"head"});
  ENCORE_RETURN_IF_ERROR(ops.linear(a.head_normed, *head_, Epilogue::kLogits, rows, a.part_logits));
  if (a.part_logits.data != a.logits.data) {
    ENCORE_RETURN_IF_ERROR(ops.all_gather(a.part_logits, rows, a.logits));
  }
  ops.label({"sample"});
  return ops.sample(a.logits, step.inputs, step.results);
}

Status LayerStack::forward(Ops& ops, const Step& step) const {
  const Activations& a = step.activations;
  const int32_t last = static_cast<int32_t>(layers_.size()) - 1;
  ENCORE_RETURN_IF_ERROR(embed(ops, step));
  for (int32_t i = 0; i < last; ++i) ENCORE_RETURN_IF_ERROR(layer(ops, step, i));
  if (a.head_attended.data == nullptr) {
    ENCORE_RETURN_IF_ERROR(layer(ops, step, last));
    return head(ops, step);
  }
  ENCORE_RETURN_IF_ERROR(attend(ops, step, last));
  ops.label({"gather", last});
  ENCORE_RETURN_IF_ERROR(ops.gather_logit_rows(a.attended, step.inputs, a.head_attended));
  ENCORE_RETURN_IF_ERROR(ops.gather_logit_rows(a.hidden, step.inputs, a.head_hidden));
  Activations rows = a;
  rows.hidden = a.head_hidden;
  rows.normed = a.head_normed;
  rows.attended = a.head_attended;
  rows.gated = a.head_gated;
  ENCORE_RETURN_IF_ERROR(close_layer(ops, rows, {step.inputs.num_logit_rows, a.logits.rows}, last));
  return sample(ops, step);
}

}  // namespace encore::lowering
