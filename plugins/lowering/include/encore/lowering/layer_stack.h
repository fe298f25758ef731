// A transformer as three parts with fixed signatures: embed, layer stack, head.
//
// The layer stack sees tokens, positions and pages, never the number of requests: that is why one
// prefill graph serves any mix of requests. Written once, over Ops, for every backend.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "encore/lowering/arena.h"
#include "encore/lowering/ops.h"
#include "encore/lowering/shard.h"
#include "encore/model_spec.h"
#include "encore/status.h"
#include "encore/weights.h"

namespace encore::lowering {

// The short-lived tensors of one step, planned into an arena.
struct Activations {
  Matrix hidden;    // [tokens, hidden_size], the residual stream
  Matrix normed;    // [tokens, hidden_size], input of qkv, and of gate and up
  Matrix qkv;       // [tokens, q_size + 2 kv_size]
  Matrix attended;  // [tokens, q_size]
  Matrix gated;     // [tokens, intermediate_size]
  // Of the rows that want logits, where they are fewer than tokens: see LayerStack::forward().
  Matrix head_attended;  // [logit_rows, q_size]
  Matrix head_gated;     // [logit_rows, intermediate_size]
  Matrix head_hidden;    // [logit_rows, hidden_size]
  Matrix head_normed;    // [logit_rows, hidden_size]
  Matrix part_logits;    // [logit_rows, head_rows], f32; the logits themselves on one rank
  Matrix logits;         // [logit_rows, logit_columns], f32; the first vocab_size count
};

// Where the activations of a step of that many rows lie, relative to the arena's start.
class ActivationPlan {
 public:
  // `spec` is the rank's own, see shard.h.
  ActivationPlan(const ModelSpec& spec, const Shard& shard, DType activation_dtype, int32_t tokens,
                 int32_t logit_rows);
  int64_t bytes() const { return arena_.bytes(); }
  Activations at(std::byte* base) const;

 private:
  struct Entry {
    Matrix Activations::*member;
    int32_t rows;
    int32_t columns;
    int32_t id;
  };
  ArenaPlan arena_;
  std::vector<Entry> entries_;
};

// Everything one step's ops refer to.
struct Step {
  StepInputs inputs;
  StepResults results;
  Activations activations;
  void* kv = nullptr;
};

// The same step at the same addresses, for fewer rows.
inline Step narrowed(Step step, int32_t tokens, int32_t logit_rows) {
  Activations& a = step.activations;
  for (Matrix* matrix : {&a.hidden, &a.normed, &a.qkv, &a.attended, &a.gated}) {
    matrix->rows = tokens;
  }
  for (Matrix* matrix : {&a.head_attended, &a.head_gated, &a.head_hidden, &a.head_normed,
                         &a.part_logits, &a.logits}) {
    matrix->rows = logit_rows;
  }
  return step;
}

// The weights of one model on one device, and the order of its ops. Immutable after load; any
// number of runners share it.
class LayerStack {
 public:
  // `spec` and `source` are the rank's own, see shard.h.
  // Errors: the ops'; kCancelled if `progress` returns false.
  static Result<std::unique_ptr<LayerStack>> load(
      Ops& ops, const ModelSpec& spec, const Shard& shard, const WeightSource& source,
      const std::function<bool(int64_t, int64_t)>& progress);

  const ModelSpec& spec() const { return spec_; }
  const Shard& shard() const { return shard_; }

  // Token ids [n] -> hidden [n, hidden_size], and what the first layer starts from.
  Status embed(Ops& ops, const Step& step) const;
  // hidden, positions, pages -> hidden, for one layer.
  Status layer(Ops& ops, const Step& step, int32_t index) const;
  // hidden, rows [r] -> logits [r, logit_columns] -> sampled tokens.
  Status head(Ops& ops, const Step& step) const;
  // All three, without a break. Behind the last layer's attention only rows that want logits go on:
  // nobody reads the others. So the last layer's hidden is complete only after layer().
  Status forward(Ops& ops, const Step& step) const;

 private:
  struct Layer {
    std::unique_ptr<Weight> attention_norm;
    std::unique_ptr<Weight> qkv;
    std::unique_ptr<Weight> q_norm;
    std::unique_ptr<Weight> k_norm;
    std::unique_ptr<Weight> o;
    std::unique_ptr<Weight> mlp_norm;
    std::unique_ptr<Weight> gate_up;
    std::unique_ptr<Weight> down;
  };
  LayerStack(const ModelSpec& spec, const Shard& shard) : spec_(spec), shard_(shard) {}
  // What o and down do to the residual stream: it enters the sum over ranks once.
  Epilogue closing_epilogue() const { return shard_.rank == 0 ? Epilogue::kAdd : Epilogue::kNone; }
  // The two halves of a layer: normed -> attended; attended -> hidden and the next layer's normed,
  // over `rows` of these activations.
  Status attend(Ops& ops, const Step& step, int32_t index) const;
  Status close_layer(Ops& ops, const Activations& a, Rows rows, int32_t index) const;
  // head_hidden -> logits -> sampled tokens.
  Status sample(Ops& ops, const Step& step) const;
  // hidden += x W^T + b over all ranks; then normed = rms_norm(hidden) * norm, unless norm is null.
  Status close_half(Ops& ops, const Activations& a, Rows rows, Matrix x, const Weight& weight,
                    const Weight* norm) const;

  ModelSpec spec_;
  Shard shard_;
  std::unique_ptr<Weight> embedding_;
  std::unique_ptr<Weight> rope_;
  std::vector<Layer> layers_;
  std::unique_ptr<Weight> norm_;
  std::unique_ptr<Weight> head_;
};

}  // namespace encore::lowering
