#include "kernels/cpu/sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "ops_test_support.h"
#include "sample_philox.h"

namespace encore::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr RowSampling kGreedy = {0.0F, 1.0F, 0.0F, 1.0F, 0.0F, 0.0F, 0, -1, 0, 0};
constexpr RowSampling kPlain = {1.0F, 1.0F, 0.0F, 1.0F, 0.0F, 0.0F, 0, -1, 0, 0};

// Rows of logits and all that belongs to them, and the results.
struct Rows {
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

  std::vector<int32_t> tokens;
  std::vector<int32_t> status;
  std::vector<float> token_logprobs;
  std::vector<int32_t> top_tokens;
  std::vector<float> top_logprobs;

  explicit Rows(int32_t vocab_size) : vocab(vocab_size), num_valid(vocab_size) {}

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

  void run(IsaLevel level, int32_t threads = 1) {
    const auto rows = static_cast<int32_t>(params.size());
    const size_t padded = params.size() + 2;  // two padding rows
    tokens.assign(padded, -77);
    status.assign(padded, -77);
    token_logprobs.assign(padded, kPoison);
    top_tokens.assign(padded * max_logprobs, -77);
    top_logprobs.assign(padded * max_logprobs, kPoison);
    SampleArgs args{};
    args.num_rows = &rows;
    args.logits = logits.data();
    args.logits_stride = vocab;
    args.num_valid_tokens = &num_valid;
    args.params = params.data();
    args.bias_start = bias_start.data();
    args.biases = biases.data();
    args.history_start = history_start.data();
    args.history = history.data();
    args.logit_rows = logit_rows.data();
    args.token_ids = token_ids.data();
    args.input_tokens = input_tokens.data();
    args.tokens = tokens.data();
    args.row_status = status.data();
    args.token_logprobs = token_logprobs.data();
    args.top_tokens = top_tokens.data();
    args.top_logprobs = top_logprobs.data();
    args.max_logprobs = max_logprobs;
    run_team(sample_kernel(level), args, threads, sample_scratch_bytes(num_valid));
    for (size_t row = params.size(); row < padded; ++row) {
      EXPECT_EQ(tokens[row], -77);
      EXPECT_EQ(status[row], -77);
      EXPECT_EQ(token_logprobs[row], kPoison);
      EXPECT_TRUE(all_poison(&top_logprobs[row * max_logprobs], max_logprobs));
    }
  }
};

struct GoldenCase {
  int32_t number;
  RowSampling params;
  std::vector<TokenBias> biases;
  std::vector<TokenCount> history;
  int32_t pending;
  int32_t token;
  double logprob;
  std::vector<int32_t> top_tokens;
  std::vector<double> top_logprobs;
};

std::vector<GoldenCase> golden_cases() {
  return {
#include "sample_golden.inc"
  };
}

// As in make_sample_golden.py.
std::vector<float> golden_logits(int32_t number) {
  std::vector<float> row(96);
  for (uint32_t i = 0; i < row.size(); ++i) {
    uint32_t x = i * 2654435761U + (static_cast<uint32_t>(number) * 2246822519U + 374761393U);
    x = (x ^ (x >> 15)) * 2246822519U;
    row[i] = static_cast<float>((x >> 16) % 1601U) / 128.0F - 6.25F;
  }
  return row;
}

class SampleTest : public testing::TestWithParam<IsaLevel> {};

TEST(PhiloxTest, GivesKnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox_4x32_10({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(
      philox_4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST_P(SampleTest, ChoosesAsTheGoldenReference) {
  Rows rows(96);
  rows.num_valid = 90;
  const std::vector<GoldenCase> cases = golden_cases();
  ASSERT_EQ(cases.size(), 80U);
  for (const GoldenCase& c : cases) {
    rows.add(golden_logits(c.number), c.params, c.biases, c.history, c.pending);
  }
  rows.run(GetParam(), 2);
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "case " << cases[i].number);
    EXPECT_EQ(rows.status[i], static_cast<int32_t>(RowStatus::kOk));
    EXPECT_EQ(rows.tokens[i], cases[i].token);
    EXPECT_NEAR(rows.token_logprobs[i], cases[i].logprob, 2e-6);
    for (int32_t j = 0; j < 5; ++j) {
      EXPECT_EQ(rows.top_tokens[i * 5 + j], cases[i].top_tokens[j]);
      EXPECT_NEAR(rows.top_logprobs[i * 5 + j], cases[i].top_logprobs[j], 2e-6);
    }
  }
}

// S1: extreme temperature, top_p, top_k and min_p.
TEST_P(SampleTest, ExtremeParametersAlwaysLeaveACandidate) {
  constexpr int32_t kVocab = 1000;
  const std::vector<float> logits = random_floats(kVocab, 5, 4.0F);
  const auto best =
      static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  Rows rows(kVocab);
  for (const float temperature : {0.0F, 1e-8F, 1e-4F, 2.0F}) {
    for (const float top_p : {0.0F, 1e-9F, 1.0F}) {
      for (const int32_t top_k : {-1, 0, 1, kVocab + 5}) {
        for (const float min_p : {0.0F, 1.0F}) {
          RowSampling p = kPlain;
          p.temperature = temperature;
          p.top_p = top_p;
          p.top_k = top_k;
          p.min_p = min_p;
          p.seed = rows.params.size();
          rows.add(logits, p);
        }
      }
    }
  }
  rows.run(GetParam(), 2);
  for (size_t i = 0; i < rows.params.size(); ++i) {
    const RowSampling& p = rows.params[i];
    EXPECT_EQ(rows.status[i], 0);
    ASSERT_GE(rows.tokens[i], 0);
    ASSERT_LT(rows.tokens[i], kVocab);
    const bool forced = p.temperature <= 1e-4F || p.top_p < 1.0F || p.top_k == 1 || p.min_p == 1.0F;
    if (forced) {
      EXPECT_EQ(rows.tokens[i], best) << "temperature " << p.temperature << ", top_p " << p.top_p
                                      << ", top_k " << p.top_k << ", min_p " << p.min_p;
    }
  }
}

// S2: a row that is not finite fails alone.
TEST_P(SampleTest, ANonFiniteRowFailsAndLeavesOthersAlone) {
  constexpr int32_t kVocab = 777;
  const auto build = [&](float bad, int32_t first, int32_t last) {
    Rows rows(kVocab);
    for (uint32_t r = 0; r < 4; ++r) {
      std::vector<float> logits = random_floats(kVocab, r, 3.0F);
      if (r == 1) std::fill(logits.begin() + first, logits.begin() + last, bad);
      RowSampling p = kPlain;
      p.temperature = r == 3 ? 0.0F : 0.9F;
      p.num_logprobs = 2;
      p.seed = r;
      rows.add(logits, p);
    }
    rows.run(GetParam(), 2);
    return rows;
  };
  const Rows clean = build(0.0F, 0, 0);
  EXPECT_EQ(clean.status[1], 0);
  const Rows bad[] = {build(kNaN, 0, kVocab), build(kNaN, 776, 777), build(kNaN, 300, 301),
                      build(kInfinity, 5, 6)};
  for (const Rows& rows : bad) {
    EXPECT_EQ(rows.status[1], static_cast<int32_t>(RowStatus::kNotFinite));
    EXPECT_EQ(rows.tokens[1], -1);
    EXPECT_EQ(rows.token_logprobs[1], -kInfinity);
    for (const size_t r : {0, 2, 3}) {
      EXPECT_EQ(rows.status[r], 0);
      EXPECT_EQ(rows.tokens[r], clean.tokens[r]);
      EXPECT_EQ(rows.token_logprobs[r], clean.token_logprobs[r]);
      EXPECT_TRUE(same_bits(&rows.top_logprobs[r * 5], &clean.top_logprobs[r * 5], 5));
    }
  }
}

TEST_P(SampleTest, ABanOfEveryTokenIsReported) {
  Rows rows(40);
  std::vector<TokenBias> bans(40);
  for (int32_t i = 0; i < 40; ++i) bans[i] = {i, -kInfinity};
  rows.add(random_floats(40, 1), kGreedy, bans);
  rows.add(std::vector<float>(40, -kInfinity), kPlain);
  bans.pop_back();
  rows.add(random_floats(40, 2), kPlain, bans);
  rows.run(GetParam());
  EXPECT_EQ(rows.status[0], static_cast<int32_t>(RowStatus::kNoCandidate));
  EXPECT_EQ(rows.status[1], static_cast<int32_t>(RowStatus::kNoCandidate));
  EXPECT_EQ(rows.tokens[0], -1);
  EXPECT_EQ(rows.tokens[1], -1);
  EXPECT_EQ(rows.tokens[2], 39);
}

TEST_P(SampleTest, PaddedIdsAreNeverSampledNorLookedAt) {
  Rows rows(64);
  rows.num_valid = 50;
  std::vector<float> logits(64, 1.0F);
  std::fill(logits.begin() + 50, logits.end(), 100.0F);
  logits[63] = kNaN;
  for (int32_t i = 0; i < 400; ++i) {
    RowSampling p = kPlain;
    p.temperature = i == 0 ? 0.0F : 3.0F;
    p.position = i;
    rows.add(logits, p, {{60, 50.0F}, {-3, 1.0F}, {1 << 30, 1.0F}});
  }
  rows.run(GetParam());
  EXPECT_EQ(rows.tokens[0], 0);  // all equal: the lowest id
  for (int32_t i = 0; i < 400; ++i) {
    EXPECT_EQ(rows.status[i], 0);
    EXPECT_LT(rows.tokens[i], 50);
  }
}

TEST_P(SampleTest, TiesGoToTheLowestId) {
  Rows rows(600);
  std::vector<float> logits(600, 0.0F);
  for (const int32_t i : {130, 131, 400, 599}) logits[i] = 2.0F;
  RowSampling one = kPlain;
  one.top_k = 1;
  RowSampling nucleus = kPlain;
  nucleus.top_p = 1e-3F;
  rows.add(logits, kGreedy);
  rows.add(logits, one);
  rows.add(logits, nucleus);
  rows.params[0].num_logprobs = 3;
  rows.run(GetParam());
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(rows.tokens[i], 130);
  EXPECT_EQ(rows.top_tokens[0], 130);
  EXPECT_EQ(rows.top_tokens[1], 131);
  EXPECT_EQ(rows.top_tokens[2], 400);
  EXPECT_EQ(rows.top_tokens[3], -1);
  EXPECT_EQ(rows.top_logprobs[3], -kInfinity);
}

// Share of each token among `draws` positions of one stream.
std::vector<int32_t> histogram(IsaLevel level, const std::vector<float>& logits, RowSampling p,
                               int32_t draws) {
  std::vector<int32_t> counts(logits.size());
  Rows rows(static_cast<int32_t>(logits.size()));
  for (int32_t i = 0; i < draws; ++i) {
    p.position = i;
    rows.add(logits, p);
  }
  rows.run(level);
  for (int32_t i = 0; i < draws; ++i) ++counts[rows.tokens[i]];
  return counts;
}

double chi_square(const std::vector<int32_t>& counts, const std::vector<double>& shares) {
  const double draws = std::accumulate(counts.begin(), counts.end(), 0.0);
  double sum = 0.0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = shares[i] * draws;
    if (expected == 0.0) {
      EXPECT_EQ(counts[i], 0);
    } else {
      sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
  }
  return sum;
}

std::vector<double> shares_of(const std::vector<float>& logits, double temperature) {
  std::vector<double> shares(logits.begin(), logits.end());
  double sum = 0.0;
  for (double& s : shares) s = std::exp(s / temperature);
  for (const double s : shares) sum += s;
  for (double& s : shares) s /= sum;
  return shares;
}

TEST_P(SampleTest, DrawsFollowTheDistribution) {
  const std::vector<float> logits = random_floats(50, 77);
  RowSampling p = kPlain;
  p.temperature = 0.8F;
  p.seed = 1234567;
  // 99.9 % of chi-square with 49 degrees of freedom.
  EXPECT_LT(chi_square(histogram(GetParam(), logits, p, 40000), shares_of(logits, 0.8)), 85.35);
}

TEST_P(SampleTest, DrawsFollowTheFilteredDistribution) {
  const std::vector<float> logits = random_floats(50, 78);
  RowSampling p = kPlain;
  p.top_k = 10;
  p.seed = 99;
  std::vector<double> shares = shares_of(logits, 1.0);
  std::vector<double> sorted = shares;
  std::sort(sorted.rbegin(), sorted.rend());
  const double kept = std::accumulate(sorted.begin(), sorted.begin() + 10, 0.0);
  for (double& s : shares) s = s >= sorted[9] ? s / kept : 0.0;
  // 99.9 % of chi-square with 9 degrees of freedom.
  EXPECT_LT(chi_square(histogram(GetParam(), logits, p, 40000), shares), 27.88);
}

// Against a plain double sampler: the kernel's token must be kept, and its piece of the CDF must
// hold u, give or take kSlack, which covers the rounding of f32 exponentials.
void expect_plausible(const std::vector<float>& logits, const RowSampling& p, int32_t token) {
  constexpr double kSlack = 1e-5;
  std::vector<double> shares = shares_of(logits, static_cast<double>(p.temperature));
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
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
  ASSERT_GT(shares[token], 0.0);
  const double below = std::accumulate(shares.begin(), shares.begin() + token, 0.0);
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  const double u = uniform_of(p.seed, p.position);
  EXPECT_LE(below / total, u + kSlack);
  EXPECT_GE((below + shares[token]) / total, u - kSlack);
}

TEST_P(SampleTest, LargeVocabulariesAgreeWithDouble) {
  for (const float deviation : {0.01F, 3.0F}) {  // nearly flat, and peaked
    const std::vector<float> logits = random_floats(49152 - 5, 91, deviation);
    Rows rows(static_cast<int32_t>(logits.size()));
    for (const float top_p : {1.0F, 0.95F, 0.5F}) {
      for (const int32_t top_k : {0, 40, 30000}) {
        for (const float min_p : {0.0F, 0.05F}) {
          RowSampling p = kPlain;
          p.temperature = 0.9F;
          p.top_p = top_p;
          p.top_k = top_k;
          p.min_p = min_p;
          p.seed = 7 * rows.params.size();
          p.position = 100;
          rows.add(logits, p);
        }
      }
    }
    rows.run(GetParam(), 2);
    for (size_t i = 0; i < rows.params.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "deviation " << deviation << ", row " << i);
      expect_plausible(logits, rows.params[i], rows.tokens[i]);
    }
  }
}

TEST_P(SampleTest, CompanyRowAndThreadsDoNotChangeBits) {
  const std::vector<GoldenCase> cases = golden_cases();
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  for (const GoldenCase& c : cases) {
    Rows alone(96);
    alone.add(golden_logits(c.number), c.params, c.biases, c.history, c.pending);
    alone.run(GetParam());
    tokens.push_back(alone.tokens[0]);
    logprobs.push_back(alone.token_logprobs[0]);
  }
  for (const int32_t threads : {1, 2, 3}) {
    Rows rows(96);
    for (size_t i = cases.size(); i-- > 0;) {
      const GoldenCase& c = cases[i];
      rows.add(golden_logits(c.number), c.params, c.biases, c.history, c.pending);
    }
    rows.run(GetParam(), threads);
    for (size_t i = 0; i < cases.size(); ++i) {
      EXPECT_EQ(rows.tokens[cases.size() - 1 - i], tokens[i]);
      EXPECT_EQ(rows.token_logprobs[cases.size() - 1 - i], logprobs[i]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, SampleTest, testing::ValuesIn(ops_levels()), LevelName());

}  // namespace
}  // namespace encore::kernels
