// The specification of a forward pass: float64 and plain loops, sharing nothing with any backend.
//
// With ReferenceArithmetic it also rounds as a device with shorter numbers would, which shows how
// far from the exact result a correct device may be (tests/check/error_limit_test.cpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "encore/model_spec.h"
#include "encore/weights.h"

namespace encore::check {

// Bits of a number's mantissa, the leading one included: 24 for f32, 11 for f16 and TF32, 8 for
// bf16. 0: not rounded.
struct ReferenceArithmetic {
  int32_t activation_bits = 0;  // results of every op
  int32_t kv_bits = 0;          // keys and values in the cache
  bool int8_inputs = false;     // inputs of linears become int8 in groups of 32 with one scale each
};

struct ReferencePass {
  std::vector<std::vector<double>> layer_outputs;  // [num_layers][num_tokens * hidden_size]
  std::vector<std::vector<double>> logits;         // [rows][vocab_size]
};

// Holds the weights in float64. Const methods may be called from any thread.
class ReferenceModel {
 public:
  // REQUIRES: every weight of `spec` is in `source`, in f32, f16, bf16, q8_0 or q4_0.
  ReferenceModel(const ModelSpec& spec, const WeightSource& source,
                 ReferenceArithmetic arithmetic = {});

  // One request of `tokens` at `positions` (empty: 0, 1, 2, ...), each seeing those up to itself;
  // logits after the tokens at the indices `rows`. REQUIRES: tokens in [0, vocab_size).
  ReferencePass forward(std::span<const int32_t> tokens, std::span<const int32_t> rows,
                        std::span<const int32_t> positions = {}) const;

  // The logits after the last token.
  std::vector<double> last_logits(std::span<const int32_t> tokens) const;

 private:
  using Values = std::vector<double>;
  struct Linear {
    Values weight;  // [out, in]
    Values bias;    // [out] or empty
    size_t in = 0;
    size_t out = 0;
  };
  struct Layer {
    Values attention_norm, q_norm, k_norm, mlp_norm;
    Linear q, k, v, o, gate, up, down;
  };

  Values read(const WeightSource& source, const std::string& name) const;
  Linear read_linear(const WeightSource& source, const std::string& name, bool bias) const;
  double rounded(double value) const;
  Values apply(const Linear& linear, const Values& x) const;  // [in] -> [out]
  Values normalised(std::span<const double> x, const Values& weight) const;
  void rotate(std::span<double> head, double position) const;
  void prepare_heads(Values& heads, const Values& norm, double position) const;
  Values attend(const Values& q, const std::vector<Values>& keys, const std::vector<Values>& values,
                size_t last) const;
  void run_layer(const Layer& layer, std::span<const int32_t> positions,
                 std::vector<Values>& hidden) const;

  ModelSpec spec_;
  ReferenceArithmetic arithmetic_;
  Values embedding_;  // [vocab_size, hidden_size]
  std::vector<Layer> layers_;
  Values norm_;
  Linear head_;
};

// `value` with `bits` bits of mantissa, nearest even; unchanged if `bits` is 0.
double round_to_bits(double value, int32_t bits);

}  // namespace encore::check
