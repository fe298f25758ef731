#include "kernels/gpu/sample.h"

#include "sample_test_support.h"

namespace encore::gpu::testing {
namespace {

constexpr int32_t kOk = 0;
constexpr int32_t kNotFinite = 1;
constexpr int32_t kNoCandidate = 2;

ENCORE_GPU_WARP_TEST(SampleTest);

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
#include "../kernels/sample_golden.inc"
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

TEST_P(SampleTest, ChoosesAsTheGoldenReference) {
  SampledRows rows(96);
  rows.num_valid = 90;
  const std::vector<GoldenCase> cases = golden_cases();
  ASSERT_EQ(cases.size(), 80U);
  for (const GoldenCase& c : cases) {
    rows.add(golden_logits(c.number), c.params, c.biases, c.history, c.pending);
  }
  rows.run(launch_);
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "case " << cases[i].number);
    EXPECT_EQ(rows.status[i], kOk);
    EXPECT_EQ(rows.tokens[i], cases[i].token);
    EXPECT_NEAR(rows.token_logprobs[i], cases[i].logprob, 2e-6);
    for (int32_t j = 0; j < 5; ++j) {
      EXPECT_EQ(rows.top_tokens[i * 5 + j], cases[i].top_tokens[j]);
      EXPECT_NEAR(rows.top_logprobs[i * 5 + j], cases[i].top_logprobs[j], 2e-6);
    }
  }
}

TEST_P(SampleTest, ExtremeParametersAlwaysLeaveACandidate) {
  constexpr int32_t kVocab = 1000;
  const std::vector<float> logits = random_logits(kVocab, 5, 4.0F);
  const int32_t best = ranked(logits)[0];
  SampledRows rows(kVocab);
  for (const float temperature : {0.0F, 1e-8F, 1e-4F, 2.0F, 1e30F}) {
    for (const float top_p : {0.0F, 1e-9F, 1.0F}) {
      for (const int32_t top_k : {-1, 0, 1, kVocab + 5}) {
        for (const float min_p : {0.0F, 1.0F}) {
          rows.add(logits,
                   {temperature, top_p, min_p, 1.0F, 0.0F, 0.0F, top_k, -1, rows.params.size(), 0});
        }
      }
    }
  }
  rows.run(launch_);
  for (size_t i = 0; i < rows.params.size(); ++i) {
    const RowSampling& p = rows.params[i];
    EXPECT_EQ(rows.status[i], kOk);
    ASSERT_GE(rows.tokens[i], 0);
    ASSERT_LT(rows.tokens[i], kVocab);
    const bool forced = p.temperature <= 1e-4F || p.top_p < 1.0F || p.top_k == 1 || p.min_p == 1.0F;
    if (forced) {
      EXPECT_EQ(rows.tokens[i], best) << "temperature " << p.temperature << ", top_p " << p.top_p
                                      << ", top_k " << p.top_k << ", min_p " << p.min_p;
    }
  }
}

TEST_P(SampleTest, ANonFiniteRowFailsAndLeavesOthersAlone) {
  constexpr int32_t kVocab = 777;
  const auto build = [&](float bad, int32_t first, int32_t last, bool penalised) {
    SampledRows rows(kVocab);
    for (uint32_t r = 0; r < 4; ++r) {
      std::vector<float> logits = random_logits(kVocab, r, 3.0F);
      if (r == 1) std::fill(logits.begin() + first, logits.begin() + last, bad);
      RowSampling p = kPlain;
      p.temperature = r == 3 ? 0.0F : 0.9F;
      p.num_logprobs = 2;
      p.seed = r;
      if (penalised && r == 1) p.presence_penalty = 0.5F;
      rows.add(logits, p);
    }
    rows.run(launch_);
    return rows;
  };
  const SampledRows clean = build(0.0F, 0, 0, false);
  EXPECT_EQ(clean.status[1], kOk);
  const SampledRows bad[] = {build(kNaN, 0, kVocab, false), build(kNaN, 776, 777, false),
                             build(kNaN, 300, 301, true), build(kInfinity, 5, 6, false)};
  for (const SampledRows& rows : bad) {
    EXPECT_EQ(rows.status[1], kNotFinite);
    EXPECT_EQ(rows.tokens[1], -1);
    EXPECT_EQ(rows.token_logprobs[1], -kInfinity);
    for (int32_t j = 0; j < 5; ++j) {
      EXPECT_EQ(rows.top_tokens[5 + j], -1);
      EXPECT_EQ(rows.top_logprobs[5 + j], -kInfinity);
    }
    for (const size_t r : {0, 2, 3}) {
      EXPECT_EQ(rows.status[r], kOk);
      EXPECT_EQ(rows.tokens[r], clean.tokens[r]);
      EXPECT_EQ(rows.token_logprobs[r], clean.token_logprobs[r]);
      for (size_t j = 0; j < 5; ++j) {
        EXPECT_EQ(rows.top_tokens[r * 5 + j], clean.top_tokens[r * 5 + j]);
        EXPECT_EQ(rows.top_logprobs[r * 5 + j], clean.top_logprobs[r * 5 + j]);
      }
    }
  }
}

TEST_P(SampleTest, ABanOfEveryTokenIsReported) {
  constexpr int32_t kVocab = 3000;  // more than one thread block of the scan
  SampledRows rows(kVocab);
  std::vector<TokenBias> bans(kVocab);
  for (int32_t i = 0; i < kVocab; ++i) bans[i] = {i, -kInfinity};
  rows.add(random_logits(kVocab, 1), kGreedy, bans);
  rows.add(std::vector<float>(kVocab, -kInfinity), kPlain);
  bans.pop_back();
  rows.add(random_logits(kVocab, 2), kPlain, bans);
  rows.add(random_logits(kVocab, 3), kGreedy, {{17, kInfinity}});
  rows.run(launch_);
  EXPECT_EQ(rows.status, (std::vector<int32_t>{kNoCandidate, kNoCandidate, kOk, kNotFinite}));
  EXPECT_EQ(rows.tokens, (std::vector<int32_t>{-1, -1, kVocab - 1, -1}));
}

TEST_P(SampleTest, PaddedIdsAreNeverSampledNorLookedAt) {
  SampledRows rows(64);
  rows.num_valid = 50;
  std::vector<float> logits(64, 1.0F);
  std::fill(logits.begin() + 50, logits.end(), 100.0F);
  logits[63] = kNaN;
  for (int32_t i = 0; i < 200; ++i) {
    RowSampling p = kPlain;
    p.temperature = i == 0 ? 0.0F : 3.0F;
    p.position = i;
    rows.add(logits, p, {{60, 50.0F}, {-3, 1.0F}, {1 << 30, 1.0F}});
  }
  rows.run(launch_);
  EXPECT_EQ(rows.tokens[0], 0);  // all equal: the lowest id
  for (int32_t i = 0; i < 200; ++i) {
    EXPECT_EQ(rows.status[i], kOk);
    EXPECT_LT(rows.tokens[i], 50);
  }
}

TEST_P(SampleTest, TiesGoToTheLowestId) {
  SampledRows rows(600);
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
  rows.run(launch_);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(rows.tokens[i], 130);
  EXPECT_EQ(rows.top_tokens[0], 130);
  EXPECT_EQ(rows.top_tokens[1], 131);
  EXPECT_EQ(rows.top_tokens[2], 400);
  EXPECT_EQ(rows.top_tokens[3], -1);
  EXPECT_EQ(rows.top_logprobs[3], -kInfinity);
}

// Of 5000 equals (more than the kernel lists), 4000 stay: those with the lowest ids.
TEST_P(SampleTest, ManyTiesAreCutById) {
  constexpr int32_t kVocab = 9000;
  std::vector<float> logits(kVocab, -1.0F);
  for (int32_t i = 0; i < 5000; ++i) logits[kVocab - 1 - i] = 1.0F;
  SampledRows rows(kVocab);
  for (int32_t i = 0; i < 40; ++i) {
    RowSampling p = kPlain;
    p.position = i;
    p.top_k = 4000;
    if (i % 2 == 1) p = {1.0F, 0.4F, 0.5F, 1.0F, 0.0F, 0.0F, 0, -1, 0, i};
    rows.add(logits, p);
  }
  rows.run(launch_);
  for (int32_t i = 0; i < 40; ++i) expect_plausible(logits, rows.params[i], rows.tokens[i]);
}

double chi_square(const std::vector<int32_t>& tokens, const std::vector<double>& shares) {
  std::vector<int32_t> counts(shares.size());
  for (const int32_t token : tokens) ++counts[token];
  double sum = 0.0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = shares[i] * static_cast<double>(tokens.size());
    if (expected == 0.0) {
      EXPECT_EQ(counts[i], 0);
    } else {
      sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
  }
  return sum;
}

TEST_P(SampleTest, DrawsFollowTheDistribution) {
  constexpr int32_t kDraws = kOnCpu ? 1500 : 40000;
  const std::vector<float> logits = random_logits(50, 77);
  SampledRows rows(50);
  RowSampling p = kPlain;
  p.temperature = 0.8F;
  p.seed = 1234567;
  for (p.position = 0; p.position < kDraws; ++p.position) rows.add(logits, p);
  rows.run(launch_);
  // 99.9 % of chi-square with 49 degrees of freedom.
  EXPECT_LT(chi_square(rows.tokens, shares_of(logits, 0.8)), 85.35);
}

TEST_P(SampleTest, DrawsFollowTheFilteredDistribution) {
  constexpr int32_t kDraws = kOnCpu ? 1000 : 40000;
  const std::vector<float> logits = random_logits(50, 78);
  SampledRows rows(50);
  RowSampling p = kPlain;
  p.top_k = 10;
  p.seed = 99;
  for (p.position = 0; p.position < kDraws; ++p.position) rows.add(logits, p);
  rows.run(launch_);
  std::vector<double> shares = shares_of(logits, 1.0);
  const std::vector<int32_t> order = ranked(logits);
  double kept = 0.0;
  for (int32_t i = 0; i < 10; ++i) kept += shares[order[i]];
  for (int32_t i = 0; i < 50; ++i) shares[order[i]] = i < 10 ? shares[order[i]] / kept : 0.0;
  // 99.9 % of chi-square with 9 degrees of freedom.
  EXPECT_LT(chi_square(rows.tokens, shares), 27.88);
}

TEST_P(SampleTest, LargeVocabulariesAgreeWithDouble) {
  for (const auto& [vocab, deviation] :
       {std::pair{49147, 0.01F}, std::pair{49147, 3.0F}, std::pair{151936, 2.0F}}) {
    const std::vector<float> logits = random_logits(vocab, 91, deviation);
    SampledRows rows(vocab);
    for (const float top_p : {1.0F, 0.95F, 0.5F}) {
      for (const int32_t top_k : {0, 40, 30000}) {
        for (const float min_p : {0.0F, 0.05F}) {
          rows.add(logits,
                   {0.9F, top_p, min_p, 1.0F, 0.0F, 0.0F, top_k, -1, 7 * rows.params.size(), 100});
        }
      }
    }
    rows.run(launch_);
    for (size_t i = 0; i < rows.params.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << "deviation " << deviation << ", row " << i);
      EXPECT_EQ(rows.status[i], kOk);
      expect_plausible(logits, rows.params[i], rows.tokens[i]);
    }
  }
}

TEST_P(SampleTest, LogProbabilitiesAreOfTheRawLogits) {
  constexpr int32_t kVocab = 128256;
  constexpr int32_t kTop = 20;
  SampledRows rows(kVocab);
  rows.max_logprobs = kTop;
  std::vector<std::vector<float>> logits;
  for (int32_t i = 0; i < 4; ++i) {
    logits.push_back(random_logits(kVocab, i, 3.0F));
    if (i == 2) std::fill(logits[i].begin() + 3, logits[i].end(), -kInfinity);
    RowSampling p = i == 1 ? kPlain : kGreedy;
    p.num_logprobs = i == 3 ? 0 : 100;  // as many as there is room for
    const int32_t best = ranked(logits[i])[0];
    rows.add(logits[i], p,
             i == 0 ? std::vector<TokenBias>{{best, -100.0F}} : std::vector<TokenBias>{});
  }
  rows.run(launch_);
  EXPECT_EQ(rows.tokens[0], ranked(logits[0])[1]);  // the best is banned, but reported
  for (int32_t i = 0; i < 4; ++i) {
    SCOPED_TRACE(::testing::Message() << "row " << i);
    const std::vector<int32_t> order = ranked(logits[i]);
    double sum = 0.0;
    const double highest = logits[i][order[0]];
    for (const float x : logits[i]) sum += std::exp(x - highest);
    const double log_sum = highest + std::log(sum);
    // f32 exponentials, of which the rounding errors mostly cancel, and one f32 rounding of about
    // -20.
    EXPECT_NEAR(rows.token_logprobs[i], logits[i][rows.tokens[i]] - log_sum, 3e-6);
    const int32_t found = i == 3 ? 0 : i == 2 ? 3 : kTop;
    for (int32_t j = 0; j < kTop; ++j) {
      EXPECT_EQ(rows.top_tokens[i * kTop + j], j < found ? order[j] : -1);
      const float logprob = rows.top_logprobs[i * kTop + j];
      if (j < found) {
        EXPECT_NEAR(logprob, logits[i][order[j]] - log_sum, 3e-6);
      } else {
        EXPECT_EQ(logprob, -kInfinity);
      }
    }
  }
}

// Penalties of a long history, over many blocks of the scan, against a plain loop.
TEST_P(SampleTest, AHistoryChangesWhatIsChosen) {
  constexpr int32_t kVocab = 20000;
  const std::vector<float> logits = random_logits(kVocab, 8);
  const std::vector<int32_t> order = ranked(logits);
  std::vector<TokenCount> history;
  history.reserve(9000);
  for (int32_t i = 0; i < 9000; ++i) history.push_back({order[i], i % 2, i % 3});
  RowSampling p = kGreedy;
  p.repetition_penalty = 1.3F;
  p.presence_penalty = 0.2F;
  p.frequency_penalty = 0.1F;
  for (const int32_t pending : {-1, order[1], order[15000]}) {
    std::vector<float> edited = logits;
    std::vector<TokenCount> seen = history;
    for (TokenCount& entry : seen) entry.in_output += entry.token == pending ? 1 : 0;
    if (pending == order[15000]) seen.push_back({pending, 0, 1});
    for (const TokenCount& entry : seen) {
      if (entry.in_prompt + entry.in_output == 0) continue;
      float& x = edited[entry.token];
      x = x > 0.0F ? x / 1.3F : x * 1.3F;
      if (entry.in_output > 0) x -= 0.1F * static_cast<float>(entry.in_output) + 0.2F;
    }
    SampledRows rows(kVocab);
    rows.add(logits, p, {}, history, pending);
    // By bias alone the row's first choice is out of reach of what the history allows.
    rows.add(logits, p, {{order[17000], 30.0F}}, history, pending);
    rows.run(launch_);
    EXPECT_EQ(rows.tokens[0], ranked(edited)[0]);
    EXPECT_EQ(rows.tokens[1], order[17000]);
  }
}

// One output of token 700 costs it 0.75: a rival of 9.0 still loses to its 10, one of 9.5 wins.
TEST_P(SampleTest, APendingTokenCountsOnce) {
  RowSampling p = kGreedy;
  p.presence_penalty = 0.5F;
  p.frequency_penalty = 0.25F;
  SampledRows rows(1000);
  for (const float rival : {9.0F, 9.5F}) {
    std::vector<float> logits(1000);
    logits[700] = 10.0F;
    logits[3] = rival;  // the input token of rows where nothing is pending
    rows.add(logits, p, {}, {{700, 0, 0}}, 700);  // in the history, which does not count it yet
    rows.add(logits, p, {}, {{500, 1, 1}}, 700);  // not in the history
    rows.add(logits, p, {}, {{700, 3, 1}});       // counted, nothing pending
    rows.add(logits, p, {}, {{700, 3, 0}}, 3);    // penalties of an output spare the prompt
  }
  rows.run(launch_);
  EXPECT_EQ(rows.tokens, (std::vector<int32_t>{700, 700, 700, 700, 3, 3, 3, 700}));
}

TEST_P(SampleTest, CompanyAndPaddingDoNotChangeARow) {
  constexpr int32_t kVocab = 5000;
  const auto params = [](int32_t i) {
    RowSampling p = i % 3 == 0 ? kGreedy : kPlain;
    if (i % 3 == 2) p.top_p = 0.9F;
    p.num_logprobs = i % 4 == 0 ? 3 : -1;
    p.position = i;
    return p;
  };
  SampledRows all(kVocab);
  for (int32_t i = 0; i < 12; ++i) all.add(random_logits(kVocab, i, 2.0F), params(i));
  all.run(launch_);
  for (int32_t i = 0; i < 12; ++i) {
    SampledRows alone(kVocab);
    alone.add(random_logits(kVocab, i, 2.0F), params(i));
    alone.run(launch_);
    EXPECT_EQ(alone.tokens[0], all.tokens[i]);
    if (i % 4 == 0) {
      EXPECT_EQ(alone.token_logprobs[0], all.token_logprobs[i]);
    }
  }
  const std::vector<int32_t> tokens = all.tokens;
  for (const int32_t live : {0, 1, 11}) {
    all.live = live;
    all.run(launch_);
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.begin() + live, all.tokens.begin()));
  }
}

// A filtered row is tallied by as many thread blocks as the greatest number of rows allows.
TEST_P(SampleTest, TheNumberOfBlocksDoesNotChangeARow) {
  constexpr int32_t kVocab = 70001;
  constexpr int32_t kKinds = 10;
  const auto kind = [](int32_t i) {
    // Deviations of 0.01 fill one bin of the tally with more tokens than the kernel lists.
    std::vector<float> logits = random_logits(kVocab, i, i % 3 == 2 ? 0.01F : 3.0F);
    RowSampling p = kPlain;
    p.temperature = i == 4 ? 8.0F : 0.9F;
    p.top_p = i % 2 == 0 ? 0.95F : 1.0F;
    p.top_k = i == 1 ? 20 : i == 6 ? 3000 : 0;
    p.min_p = i == 3 || i == 9 ? 0.02F : 0.0F;
    p.presence_penalty = i == 7 ? 0.5F : 0.0F;
    if (i >= 5 && p.top_k == 0 && p.min_p == 0.0F) p.top_p = 0.7F;
    p.position = 31 * i;
    return std::pair{std::move(logits), p};
  };
  const std::vector<float> logits_of_no_row(kVocab);
  SampledRows together(kVocab);
  for (int32_t i = 0; i < kKinds; ++i) together.add(kind(i).first, kind(i).second);
  together.run(launch_);  // 18 blocks a row
  for (int32_t i = 0; i < kKinds; ++i) {
    SCOPED_TRACE(::testing::Message() << "row " << i);
    EXPECT_EQ(together.status[i], kOk);
    expect_plausible(kind(i).first, kind(i).second, together.tokens[i]);
    for (const int32_t rows : {64, 256}) {  // 4 blocks, 1 block
      if (kOnCpu && i > 2) continue;
      SampledRows alone(kVocab);
      alone.add(kind(i).first, kind(i).second);
      while (alone.params.size() < static_cast<size_t>(rows)) alone.add(logits_of_no_row, kPlain);
      alone.live = 1;
      alone.run(launch_);
      EXPECT_EQ(alone.tokens[0], together.tokens[i]);
    }
  }
}

TEST_P(SampleTest, SizesOutOfRangeAreRefused) {
  SampleArgs args;
  args.rows.maximum = 1;
  for (const int32_t vocab : {0, 2048 * 256 + 1}) {
    args.vocab_size = vocab;
    EXPECT_EQ(sample(args, launch_), gpuErrorInvalidValue);
  }
}

}  // namespace
}  // namespace encore::gpu::testing
