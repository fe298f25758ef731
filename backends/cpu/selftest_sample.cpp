// Choice of tokens: the highest logit, a draw whose random number is published, and rows that fail.
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/sample.h"
#include "selftest_parts.h"

namespace encore::cpu {
namespace {

constexpr int32_t kVocab = 1003;        // 62 vectors of 16 and a rest
constexpr int32_t kValidTokens = 1000;  // what is beyond must not be looked at
constexpr int32_t kRows = 4;

// Philox 4x32-10 of zeros gives 6627e8d5 e169c58d (Random123's known answers): 0.8805.. as 53 bits,
// so of 1000 equal tokens number 880.
constexpr int32_t kDrawn = 880;

std::vector<float> make_logits() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> logits(static_cast<size_t>(kRows) * kVocab, -1.0F);
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t i = kValidTokens; i < kVocab; ++i) logits[row * kVocab + i] = kInfinity;
  }
  logits[997] = 3.5F;  // row 0: two equal ones, the lower id wins
  logits[998] = 3.5F;
  logits[2 * kVocab + 999] = std::numeric_limits<float>::quiet_NaN();
  for (size_t i = 0; i < kValidTokens; ++i) logits[3 * kVocab + i] = -kInfinity;
  return logits;
}

}  // namespace

Status test_sample(ThreadTeam& team, kernels::IsaLevel level) {
  const std::vector<float> logits = make_logits();
  const kernels::RowSampling greedy{0.0F, 1.0F, 0.0F, 1.0F, 0.0F, 0.0F, 0, 0, 0, 0};
  const kernels::RowSampling drawn{1.0F, 1.0F, 0.0F, 1.0F, 0.0F, 0.0F, 0, 0, 0, 0};
  const std::array<kernels::RowSampling, kRows> params = {greedy, drawn, greedy, greedy};
  std::array<int32_t, kRows> tokens{};
  std::array<int32_t, kRows> row_status{};
  std::array<float, kRows> logprobs{};
  const int32_t rows = kRows;
  const int32_t valid_tokens = kValidTokens;
  kernels::SampleArgs args{};
  args.num_rows = &rows;
  args.logits = logits.data();
  args.logits_stride = kVocab;
  args.num_valid_tokens = &valid_tokens;
  args.params = params.data();
  args.tokens = tokens.data();
  args.row_status = row_status.data();
  args.token_logprobs = logprobs.data();
  team.reserve_scratch(kernels::sample_scratch_bytes(kVocab));
  team.run(kernels::sample_kernel(level), args);

  constexpr std::array<int32_t, kRows> kTokens = {997, kDrawn, -1, -1};
  constexpr std::array kStatus = {kernels::RowStatus::kOk, kernels::RowStatus::kOk,
                                  kernels::RowStatus::kNotFinite, kernels::RowStatus::kNoCandidate};
  for (size_t i = 0; i < kRows; ++i) {
    const auto index = static_cast<int64_t>(i);
    ENCORE_RETURN_IF_ERROR(expect_near("sampling's tokens", index, tokens[i], kTokens[i], 0.0));
    ENCORE_RETURN_IF_ERROR(expect_near("sampling's row states", index, row_status[i],
                                       static_cast<int32_t>(kStatus[i]), 0.0));
  }
  // Row 0: two logits of 3.5 and 998 of -1. Row 1: a thousand equal ones.
  ENCORE_RETURN_IF_ERROR(expect_near("sampling's log-probabilities", 0,
                                     static_cast<double>(logprobs[0]),
                                     -std::log(2.0 + 998.0 * std::exp(-4.5)), 1e-5));
  return expect_near("sampling's log-probabilities", 1, static_cast<double>(logprobs[1]),
                     -std::log(1000.0), 1e-5);
}

}  // namespace encore::cpu
