// The small set of ops that a backend supplies; models and runners are written once over them.
//
// Every op enqueues work on the device's one queue and returns at once, or records it if a capture
// is open (see device.h). An op allocates nothing and synchronises nothing. All pointers are device
// addresses. Live counts are read on the device when the work runs, so that a captured op serves
// any number of rows up to the one it was recorded with.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "encore/dtype.h"
#include "encore/forward_batch.h"
#include "encore/model_spec.h"
#include "encore/status.h"
#include "encore/weights.h"

namespace encore::lowering {

// A matrix of activations, row-major without gaps, in the device's activation dtype.
struct Matrix {
  void* data = nullptr;
  int32_t rows = 0;  // recorded size: no op touches a row from here on
  int32_t columns = 0;
};

// Device addresses of one step's inputs, in the order and with the meaning of ForwardBatch. The
// place of the arrays depends on the recorded sizes alone; what is in them changes from step to
// step.
struct StepInputs {
  // Recorded sizes: no step at these addresses brings more. Array sizes below are in their terms.
  int32_t max_tokens = 0;
  int32_t max_requests = 0;  // and logits rows
  bool decode_only = false;  // every request brings one token, request i is row i

  const int32_t* num_tokens = nullptr;        // [1]
  const int32_t* num_requests = nullptr;      // [1]
  const int32_t* num_logit_rows = nullptr;    // [1]
  const int32_t* num_valid_tokens = nullptr;  // [1]
  const int32_t* token_ids = nullptr;         // [max_tokens]; -1-k: previous_tokens[k]
  const int32_t* positions = nullptr;         // [max_tokens]
  const int32_t* token_request = nullptr;     // [max_tokens], the request that a token belongs to
  const int32_t* q_start = nullptr;           // [max_requests + 1]
  const int32_t* kv_len = nullptr;            // [max_requests]
  const int32_t* page_start = nullptr;        // [max_requests + 1]
  const int32_t* page_ids = nullptr;          // [max_requests * max_pages_per_request]
  const int32_t* logit_rows = nullptr;        // [max_requests]
  const RowSampling* sampling = nullptr;      // [max_requests]
  const int32_t* bias_start = nullptr;        // [max_requests + 1]
  const TokenBias* biases = nullptr;          // [max_biases]
  const int32_t* history_start = nullptr;     // [max_requests + 1]
  const TokenCount* history = nullptr;        // [max_history]
};

// Device addresses of one step's results. `tokens` doubles as previous_tokens of the next step.
struct StepResults {
  int32_t* tokens = nullptr;        // [max_requests]
  int32_t* input_tokens = nullptr;  // [max_tokens], token_ids with negative ids resolved
  int32_t* row_status = nullptr;    // [max_requests]
  float* logprobs = nullptr;        // [max_requests]
  int32_t* top_tokens = nullptr;    // [max_requests, max_logprobs]
  float* top_logprobs = nullptr;    // [max_requests, max_logprobs]
  int32_t max_logprobs = 0;
};

// How many rows an op covers: `*live` of them now, `maximum` at most.
struct Rows {
  const int32_t* live = nullptr;  // device address
  int32_t maximum = 0;
};

// A weight in whatever form the device keeps it. Destroyed before the device.
class Weight {
 public:
  virtual ~Weight() = default;
};

// One matrix of a fused linear. Indexes are into the WeightSource; bias -1 for none.
struct LinearPart {
  size_t weight = 0;
  int64_t bias = -1;
};

enum class Epilogue {
  kNone,     // y = x W^T + b
  kAdd,      // y += x W^T + b
  kSiluMul,  // two parts, gate and up: y = silu(x G^T + bg) * (x U^T + bu)
  kLogits,   // y = x W^T, and y is f32 whatever the activation dtype
};

// What attention and the KV write of one layer need beside the step's inputs.
struct AttentionLayer {
  void* kv = nullptr;  // this device's KV cache, as made by Device::describe_kv
  int32_t layer = 0;
  const ModelSpec* spec = nullptr;  // head counts, RoPE; outlives the op
  const Weight* q_norm = nullptr;   // null unless spec->qk_norm
  const Weight* k_norm = nullptr;
  const Weight* rope = nullptr;  // from Ops::load_rope
};

// What an op is for: "layer 3 qkv". Costs nothing to pass about.
struct OpLabel {
  const char* what = "op";  // a literal
  int32_t layer = -1;       // -1: outside the layers

  std::string text() const {
    return layer < 0 ? std::string(what) : "layer " + std::to_string(layer) + " " + what;
  }
};

class Ops {
 public:
  virtual ~Ops() = default;

  // Names the ops from here on, for traces. Allocates nothing.
  virtual void label(OpLabel label) { static_cast<void>(label); }

  // Weights. Called at load, from one thread, never while a capture is open.
  //   A linear's parts share in_features; their outputs stand side by side in y.
  virtual Result<std::unique_ptr<Weight>> load_linear(const WeightSource& source,
                                                      std::span<const LinearPart> parts,
                                                      Epilogue epilogue) = 0;
  virtual Result<std::unique_ptr<Weight>> load_embedding(const WeightSource& source,
                                                         size_t weight) = 0;
  virtual Result<std::unique_ptr<Weight>> load_norm(const WeightSource& source, size_t weight) = 0;
  virtual Result<std::unique_ptr<Weight>> load_rope(const ModelSpec& spec) = 0;
  // After the last load: returns once all weights are in place. Errors: of any load before.
  virtual Status finish_loading() { return {}; }

  // Resolves negative token ids into results.input_tokens, then y[t] = table[input_tokens[t]].
  virtual Status embed(const Weight& table, const StepInputs& step, const StepResults& results,
                       Matrix y) = 0;
  // Once a step, before its layers: what they all share, such as rotary angles, the slot of each
  // new token, and how attention is divided. `layer.layer` and the norms do not matter here.
  virtual Status plan_attention(const AttentionLayer& layer, const StepInputs& step) = 0;
  // y = x / sqrt(mean(x^2) + eps) * weight, row by row.
  virtual Status rms_norm(Matrix x, const Weight& weight, float eps, Rows rows, Matrix y) = 0;
  virtual Status linear(Matrix x, const Weight& weight, Epilogue epilogue, Rows rows, Matrix y) = 0;
  // y += x W^T + b, then normed = rms_norm(y) * norm: what closes each half of a layer. A device
  // that can do both in one pass may leave `normed` in a form that only its own next linear() from
  // that matrix understands.
  virtual Status linear_add_norm(Matrix x, const Weight& weight, Rows rows, Matrix y,
                                 const Weight& norm, float eps, Matrix normed) {
    ENCORE_RETURN_IF_ERROR(linear(x, weight, Epilogue::kAdd, rows, y));
    return rms_norm(y, norm, eps, rows, normed);
  }
  // qkv [n, q_size + 2 kv_size]: normalises (if the model does) and rotates q in place, rotates k,
  // and writes k and v to their pages.
  virtual Status rope_kv_write(Matrix qkv, const AttentionLayer& layer, const StepInputs& step) = 0;
  // y [n, q_size] from q in qkv and the pages; causal within each request.
  virtual Status attention(Matrix qkv, const AttentionLayer& layer, const StepInputs& step,
                           Matrix y) = 0;
  // The two one after the other. A device that can do both in one pass need not leave q rotated.
  virtual Status rope_attention(Matrix qkv, const AttentionLayer& layer, const StepInputs& step,
                                Matrix y) {
    label({"rope", layer.layer});
    ENCORE_RETURN_IF_ERROR(rope_kv_write(qkv, layer, step));
    label({"attention", layer.layer});
    return attention(qkv, layer, step, y);
  }
  // y[i] = x[step.logit_rows[i]].
  virtual Status gather_logit_rows(Matrix x, const StepInputs& step, Matrix y) = 0;
  // Sums x over all ranks in place, in the order of the ranks: all get the same bits. Every rank
  // calls it at the same point of the same step.
  virtual Status all_reduce(Matrix x, Rows rows) {
    static_cast<void>(x);
    static_cast<void>(rows);
    return unimplemented("this device runs on one rank only");
  }
  // The sum, then normed = rms_norm(x) * norm: what closes each half of a layer on several ranks.
  virtual Status all_reduce_norm(Matrix x, Rows rows, const Weight& norm, float eps,
                                 Matrix normed) {
    ENCORE_RETURN_IF_ERROR(all_reduce(x, rows));
    return rms_norm(x, norm, eps, rows, normed);
  }
  // whole [m, n * ranks] = the ranks' part [m, n] side by side, f32 whatever the activation dtype.
  virtual Status all_gather(Matrix part, Rows rows, Matrix whole) {
    static_cast<void>(part);
    static_cast<void>(rows);
    static_cast<void>(whole);
    return unimplemented("this device runs on one rank only");
  }
  // logits [m, vocab_size] f32 whatever the activation dtype.
  virtual Status sample(Matrix logits, const StepInputs& step, const StepResults& results) = 0;
};

}  // namespace encore::lowering
