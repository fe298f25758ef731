#include "reference_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "weight_codec.h"

namespace encore::check {
namespace {

constexpr size_t kInt8Group = 32;

// Each group of 32 becomes whole multiples of its largest magnitude / 127.
void round_to_int8(std::vector<double>& x) {
  for (size_t begin = 0; begin < x.size(); begin += kInt8Group) {
    const size_t end = std::min(x.size(), begin + kInt8Group);
    double largest = 0.0;
    for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(x[i]));
    if (!(largest > 0.0)) continue;
    const double step = largest / 127.0;
    for (size_t i = begin; i < end; ++i) x[i] = std::nearbyint(x[i] / step) * step;
  }
}

}  // namespace

double round_to_bits(double value, int32_t bits) {
  if (bits == 0 || value == 0.0 || !std::isfinite(value)) return value;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // in [0.5, 1)
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}

ReferenceModel::ReferenceModel(const ModelSpec& spec, const WeightSource& source,
                               ReferenceArithmetic arithmetic)
    : spec_(spec), arithmetic_(arithmetic) {
  embedding_ = read(source, "embed.weight");
  for (int64_t index = 0; index < spec.num_layers; ++index) {
    const std::string prefix = "layers." + std::to_string(index) + ".";
    Layer layer;
    layer.attention_norm = read(source, prefix + "attention_norm.weight");
    layer.q = read_linear(source, prefix + "q", spec.qkv_bias);
    layer.k = read_linear(source, prefix + "k", spec.qkv_bias);
    layer.v = read_linear(source, prefix + "v", spec.qkv_bias);
    if (spec.qk_norm) {
      layer.q_norm = read(source, prefix + "q_norm.weight");
      layer.k_norm = read(source, prefix + "k_norm.weight");
    }
    layer.o = read_linear(source, prefix + "o", spec.attention_output_bias);
    layer.mlp_norm = read(source, prefix + "mlp_norm.weight");
    layer.gate = read_linear(source, prefix + "gate", spec.mlp_bias);
    layer.up = read_linear(source, prefix + "up", spec.mlp_bias);
    layer.down = read_linear(source, prefix + "down", spec.mlp_bias);
    layers_.push_back(std::move(layer));
  }
  norm_ = read(source, "norm.weight");
  head_ = read_linear(source, spec.tied_embeddings ? "embed" : "head", false);
}

ReferenceModel::Values ReferenceModel::read(const WeightSource& source,
                                            const std::string& name) const {
  const auto index = static_cast<size_t>(find_weight(source, name));
  const WeightInfo& info = source.weights()[index];
  std::vector<std::byte> bytes(static_cast<size_t>(info.bytes));
  if (!source.read(index, 0, bytes).ok()) return {};
  const std::vector<float> values = decode(info.dtype, bytes);
  return {values.begin(), values.end()};
}

ReferenceModel::Linear ReferenceModel::read_linear(const WeightSource& source,
                                                   const std::string& name, bool bias) const {
  const auto index = static_cast<size_t>(find_weight(source, name + ".weight"));
  const std::vector<int64_t>& shape = source.weights()[index].shape;
  Linear linear;
  linear.out = static_cast<size_t>(shape[0]);
  linear.in = static_cast<size_t>(shape[1]);
  linear.weight = read(source, name + ".weight");
  if (bias) linear.bias = read(source, name + ".bias");
  return linear;
}

double ReferenceModel::rounded(double value) const {
  return round_to_bits(value, arithmetic_.activation_bits);
}

// y[o] = sum over i of weight[o, i] * x[i], plus bias[o].
ReferenceModel::Values ReferenceModel::apply(const Linear& linear, const Values& x) const {
  Values input = x;
  if (arithmetic_.int8_inputs) round_to_int8(input);
  Values y(linear.out);
  for (size_t o = 0; o < linear.out; ++o) {
    double sum = linear.bias.empty() ? 0.0 : linear.bias[o];
    for (size_t i = 0; i < linear.in; ++i) sum += linear.weight[o * linear.in + i] * input[i];
    y[o] = rounded(sum);
  }
  return y;
}

// y = x / sqrt(mean(x^2) + eps) * weight.
ReferenceModel::Values ReferenceModel::normalised(std::span<const double> x,
                                                  const Values& weight) const {
  double squares = 0.0;
  for (const double value : x) squares += value * value;
  const double mean = squares / static_cast<double>(x.size());
  const double scale = 1.0 / std::sqrt(mean + static_cast<double>(spec_.rms_norm_eps));
  Values y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = rounded(x[i] * scale * weight[i]);
  return y;
}

// Turns pair i of a head by position * inv_freq[i]; elements of no pair stay.
void ReferenceModel::rotate(std::span<double> head, double position) const {
  const size_t pairs = spec_.rope.inv_freq.size();
  const auto scale = static_cast<double>(spec_.rope.attention_scale);
  for (size_t pair = 0; pair < pairs; ++pair) {
    const double angle = position * static_cast<double>(spec_.rope.inv_freq[pair]);
    const bool adjacent = spec_.rope.style == RopeStyle::kAdjacentPairs;
    double& a = head[adjacent ? 2 * pair : pair];
    double& b = head[adjacent ? 2 * pair + 1 : pair + pairs];
    const double turned_a = scale * (a * std::cos(angle) - b * std::sin(angle));
    const double turned_b = scale * (b * std::cos(angle) + a * std::sin(angle));
    a = rounded(turned_a);
    b = rounded(turned_b);
  }
}

// Norm of each head, if the model has one, then rotation.
void ReferenceModel::prepare_heads(Values& heads, const Values& norm, double position) const {
  const auto head_dim = static_cast<size_t>(spec_.head_dim);
  for (size_t begin = 0; begin < heads.size(); begin += head_dim) {
    const std::span<double> head(heads.data() + begin, head_dim);
    if (!norm.empty()) {
      const Values result = normalised(head, norm);
      std::copy(result.begin(), result.end(), head.begin());
    }
    rotate(head, position);
  }
}

// Softmax-weighted values of positions 0 .. last, for each head of `q`; heads in groups of
// num_heads / num_kv_heads share keys and values.
ReferenceModel::Values ReferenceModel::attend(const Values& q, const std::vector<Values>& keys,
                                              const std::vector<Values>& values,
                                              size_t last) const {
  const auto head_dim = static_cast<size_t>(spec_.head_dim);
  const auto num_heads = static_cast<size_t>(spec_.num_heads);
  const size_t group = num_heads / static_cast<size_t>(spec_.num_kv_heads);
  const double scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  Values out(num_heads * head_dim, 0.0);
  for (size_t head = 0; head < num_heads; ++head) {
    const double* query = q.data() + head * head_dim;
    const size_t shared = head / group * head_dim;  // where the head's keys and values start
    Values weights(last + 1);
    for (size_t t = 0; t <= last; ++t) {
      double score = 0.0;
      for (size_t i = 0; i < head_dim; ++i) score += query[i] * keys[t][shared + i];
      weights[t] = score * scale;
    }
    const double highest = *std::max_element(weights.begin(), weights.end());
    double sum = 0.0;
    for (double& weight : weights) sum += weight = std::exp(weight - highest);
    for (size_t i = 0; i < head_dim; ++i) {
      double mean = 0.0;
      for (size_t t = 0; t <= last; ++t) mean += weights[t] * values[t][shared + i];
      out[head * head_dim + i] = rounded(mean / sum);
    }
  }
  return out;
}

void ReferenceModel::run_layer(const Layer& layer, std::span<const int32_t> positions,
                               std::vector<Values>& hidden) const {
  std::vector<Values> keys;
  std::vector<Values> values;
  for (size_t t = 0; t < hidden.size(); ++t) {
    Values& residual = hidden[t];
    const auto add = [&](const Values& part) {
      for (size_t i = 0; i < residual.size(); ++i) residual[i] = rounded(residual[i] + part[i]);
    };
    const double position = positions.empty() ? static_cast<double>(t) : positions[t];
    const Values normed = normalised(residual, layer.attention_norm);
    Values q = apply(layer.q, normed);
    Values k = apply(layer.k, normed);
    Values v = apply(layer.v, normed);
    prepare_heads(q, layer.q_norm, position);
    prepare_heads(k, layer.k_norm, position);
    for (double& value : k) value = round_to_bits(value, arithmetic_.kv_bits);
    for (double& value : v) value = round_to_bits(value, arithmetic_.kv_bits);
    keys.push_back(std::move(k));
    values.push_back(std::move(v));
    add(apply(layer.o, attend(q, keys, values, t)));
    const Values mlp_input = normalised(residual, layer.mlp_norm);
    Values gate = apply(layer.gate, mlp_input);
    const Values up = apply(layer.up, mlp_input);
    for (size_t i = 0; i < gate.size(); ++i) {
      gate[i] = rounded(gate[i] / (1.0 + std::exp(-gate[i])) * up[i]);
    }
    add(apply(layer.down, gate));
  }
}

ReferencePass ReferenceModel::forward(std::span<const int32_t> tokens,
                                      std::span<const int32_t> rows,
                                      std::span<const int32_t> positions) const {
  const auto hidden_size = static_cast<std::ptrdiff_t>(spec_.hidden_size);
  std::vector<Values> hidden;
  for (const int32_t token : tokens) {
    const auto row = embedding_.begin() + token * hidden_size;
    hidden.emplace_back(row, row + hidden_size);
  }
  ReferencePass pass;
  for (const Layer& layer : layers_) {
    run_layer(layer, positions, hidden);
    Values& output = pass.layer_outputs.emplace_back();
    for (const Values& token : hidden) output.insert(output.end(), token.begin(), token.end());
  }
  for (const int32_t row : rows) {
    pass.logits.push_back(apply(head_, normalised(hidden[static_cast<size_t>(row)], norm_)));
  }
  return pass;
}

std::vector<double> ReferenceModel::last_logits(std::span<const int32_t> tokens) const {
  const int32_t last = static_cast<int32_t>(tokens.size()) - 1;
  return forward(tokens, std::span(&last, 1)).logits[0];
}

}  // namespace encore::check
