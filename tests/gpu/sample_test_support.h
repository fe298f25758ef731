// Rows of logits and all that belongs to them, sampled on the device; and a plain sampler in
// double.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <vector>

#include "../../kernels/cpu/sample_philox.h"
#include "gpu_test_support.h"
#include "kernels/gpu/sample.h"

namespace encore::gpu::testing {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr auto kPoisonInt = static_cast<int32_t>(0xCDCDCDCD);
inline constexpr RowSampling kGreedy = {0.0F, 1.0F, 0.0F, 1.0F, 0.0F, 0.0F, 0, -1, 0, 0};
inline constexpr RowSampling kPlain = {1.0F, 1.0F, 0.0F, 1.0F, 0.0F, 0.0F, 0, -1, 0, 0};

inline std::vector<float> random_logits(size_t count, uint32_t seed, float deviation = 1.0F) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0F, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

struct SampledRows {
  int32_t vocab = 0;
  int32_t num_valid = 0;
  std::vector<float> logits;
  std::vector<RowSampling> params;
  std::vector<int32_t> bias_start = {0};
  std::vector<TokenBias> biases;
  std::vector<int32_t> history_start = {0};
  std::vector<TokenCount> history;
  std::vector<int32_t> logit_rows;
  std::vector<int32_t> token_ids;
  std::vector<int32_t> input_tokens;
  int32_t max_logprobs = 5;
  int32_t live = -1;  // rows; -1: all

  std::vector<int32_t> tokens;
  std::vector<int32_t> status;
  std::vector<float> token_logprobs;
  std::vector<int32_t> top_tokens;
  std::vector<float> top_logprobs;

  explicit SampledRows(int32_t vocab_size) : vocab(vocab_size), num_valid(vocab_size) {}

  void add(const std::vector<float>& row, const RowSampling& p,
           const std::vector<TokenBias>& bias = {}, const std::vector<TokenCount>& seen = {},
           int32_t pending = -1) {
    logits.insert(logits.end(), row.begin(), row.end());
    params.push_back(p);
    biases.insert(biases.end(), bias.begin(), bias.end());
    bias_start.push_back(static_cast<int32_t>(biases.size()));
    history.insert(history.end(), seen.begin(), seen.end());
    history_start.push_back(static_cast<int32_t>(history.size()));
    // The row's input token is the second of its two; a negative id marks it as pending.
    logit_rows.push_back(static_cast<int32_t>(token_ids.size()) + 1);
    token_ids.insert(token_ids.end(), {3, pending >= 0 ? -1 : 3});
    input_tokens.insert(input_tokens.end(), {3, pending >= 0 ? pending : 3});
  }

  void run(const Launch& launch) {
    const auto rows = static_cast<int32_t>(params.size());
    const int32_t live_rows = live < 0 ? rows : live;
    DeviceBuffer<int32_t> d_live(std::vector<int32_t>{live_rows});
    DeviceBuffer<int32_t> d_valid(std::vector<int32_t>{num_valid});
    DeviceBuffer<float> d_logits(logits);
    DeviceBuffer<RowSampling> d_params(params);
    DeviceBuffer<int32_t> d_bias_start(bias_start);
    DeviceBuffer<TokenBias> d_biases(biases);
    DeviceBuffer<int32_t> d_history_start(history_start);
    DeviceBuffer<TokenCount> d_history(history);
    DeviceBuffer<int32_t> d_logit_rows(logit_rows);
    DeviceBuffer<int32_t> d_token_ids(token_ids);
    DeviceBuffer<int32_t> d_input_tokens(input_tokens);
    DeviceBuffer<int32_t> d_tokens(rows);
    DeviceBuffer<int32_t> d_status(rows);
    DeviceBuffer<float> d_token_logprobs(rows);
    DeviceBuffer<int32_t> d_top_tokens(static_cast<size_t>(rows) * max_logprobs);
    DeviceBuffer<float> d_top_logprobs(static_cast<size_t>(rows) * max_logprobs);
    DeviceBuffer<uint8_t> workspace(sample_workspace_bytes(rows, vocab));
    SampleArgs args;
    args.rows = {d_live.get(), rows};
    args.logits = d_logits.get();
    args.logits_stride = vocab;
    args.vocab_size = vocab;
    args.num_valid_tokens = d_valid.get();
    args.params = d_params.get();
    args.bias_start = biases.empty() ? nullptr : d_bias_start.get();
    args.biases = d_biases.get();
    args.history_start = history.empty() ? nullptr : d_history_start.get();
    args.history = d_history.get();
    args.logit_rows = d_logit_rows.get();
    args.token_ids = d_token_ids.get();
    args.input_tokens = d_input_tokens.get();
    args.tokens = d_tokens.get();
    args.row_status = d_status.get();
    args.token_logprobs = d_token_logprobs.get();
    args.top_tokens = d_top_tokens.get();
    args.top_logprobs = d_top_logprobs.get();
    args.max_logprobs = max_logprobs;
    args.workspace = workspace.get();
    ENCORE_GPU_OK(sample(args, launch));
    tokens = d_tokens.host();
    status = d_status.host();
    token_logprobs = d_token_logprobs.host();
    top_tokens = d_top_tokens.host();
    top_logprobs = d_top_logprobs.host();
    for (int32_t row = live_rows; row < rows; ++row) {
      EXPECT_EQ(tokens[row], kPoisonInt);
      EXPECT_EQ(status[row], kPoisonInt);
      EXPECT_EQ(top_tokens[row * max_logprobs], kPoisonInt);
    }
    const std::vector<float> after = d_logits.host();
    EXPECT_EQ(std::memcmp(after.data(), logits.data(), logits.size() * sizeof(float)), 0);
  }
};

inline std::vector<double> shares_of(const std::vector<float>& logits, double temperature) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> shares(logits.begin(), logits.end());
  double sum = 0.0;
  for (double& s : shares) sum += s = std::exp((s - highest) / temperature);
  for (double& s : shares) s /= sum;
  return shares;
}

// Token ids by falling logit and rising id.
inline std::vector<int32_t> ranked(const std::vector<float>& logits) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  return order;
}

// Against a plain double sampler: the token must be kept, and its piece of the CDF must hold u,
// give or take kSlack, which covers the rounding of f32 exponentials.
inline void expect_plausible(const std::vector<float>& logits, const RowSampling& p,
                             int32_t token) {
  constexpr double kSlack = 1e-5;
  std::vector<double> shares = shares_of(logits, static_cast<double>(p.temperature));
  const std::vector<int32_t> order = ranked(logits);
  const double floor = shares[order[0]] * static_cast<double>(p.min_p);
  size_t kept = p.top_k > 0 ? std::min<size_t>(p.top_k, order.size()) : order.size();
  while (kept > 1 && shares[order[kept - 1]] < floor) --kept;
  double mass = 0.0;
  for (size_t i = 0; i < kept; ++i) mass += shares[order[i]];
  double running = 0.0;
  size_t last = 0;
  for (; last < kept; ++last) {
    running += shares[order[last]];
    if (running >= mass * static_cast<double>(p.top_p)) break;
  }
  last = std::min(last, kept - 1);
  for (size_t i = last + 1; i < order.size(); ++i) shares[order[i]] = 0.0;
  ASSERT_GE(token, 0);
  ASSERT_LT(token, static_cast<int32_t>(logits.size()));
  ASSERT_GT(shares[token], 0.0);
  const double below = std::accumulate(shares.begin(), shares.begin() + token, 0.0);
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  const double u = kernels::uniform_of(p.seed, p.position);
  EXPECT_LE(below / total, u + kSlack);
  EXPECT_GE((below + shares[token]) / total, u - kSlack);
}

}  // namespace encore::gpu::testing
