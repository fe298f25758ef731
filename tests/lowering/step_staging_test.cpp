#include "encore/lowering/step_staging.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

namespace encore::lowering {
namespace {

ModelSpec small_spec() {
  ModelSpec spec;
  spec.vocab_size = 100;
  return spec;
}

RunnerLimits small_limits() {
  RunnerLimits limits;
  limits.max_requests = 4;
  limits.max_tokens = 8;
  limits.max_context = 40;
  limits.max_history = 6;
  limits.max_biases = 5;
  return limits;
}

constexpr KvInfo kKv{10, 16, 0, 0};  // page 10 is the sink

// Two requests: three tokens of a prompt, and one token after 16 cached ones.
class StepStagingTest : public ::testing::Test {
 protected:
  StepStagingTest() {
    batch_.token_ids = token_ids_;
    batch_.positions = positions_;
    batch_.q_start = q_start_;
    batch_.kv_len = kv_len_;
    batch_.page_start = page_start_;
    batch_.page_ids = page_ids_;
    batch_.logit_rows = logit_rows_;
    batch_.sampling = sampling_;
    batch_.num_valid_tokens = 90;
    output_.tokens = tokens_;
    output_.row_status = row_status_;
  }

  int64_t pack(const ForwardBatch& batch, int32_t tokens, int32_t requests) {
    tokens_padded_ = tokens;
    requests_padded_ = requests;
    return staging_.pack(batch, tokens, requests, host_.data());
  }

  // What the host buffer holds under `name`.
  std::vector<int32_t> ints(const std::string& name, size_t count) {
    for (const StaticInput& input : staging_.layout(tokens_padded_, requests_padded_)) {
      if (input.name != name) continue;
      std::vector<int32_t> values(count);
      std::memcpy(values.data(), host_.data() + input.offset, count * sizeof(int32_t));
      return values;
    }
    ADD_FAILURE() << "no input " << name;
    return {};
  }

  std::array<int32_t, 4> token_ids_ = {5, 6, 7, 8};
  std::array<int32_t, 4> positions_ = {0, 1, 2, 16};
  std::array<int32_t, 3> q_start_ = {0, 3, 4};
  std::array<int32_t, 2> kv_len_ = {3, 17};
  std::array<int32_t, 3> page_start_ = {0, 1, 3};
  std::array<int32_t, 3> page_ids_ = {9, 4, 2};
  std::array<int32_t, 2> logit_rows_ = {2, 3};
  std::array<RowSampling, 2> sampling_{};
  std::array<int32_t, 2> tokens_{};
  std::array<int32_t, 2> row_status_{};
  ForwardBatch batch_;
  StepOutput output_;
  StepStaging staging_{small_spec(), small_limits(), kKv};
  std::vector<std::byte> host_ = std::vector<std::byte>(static_cast<size_t>(staging_.bytes()));
  int32_t tokens_padded_ = 0;
  int32_t requests_padded_ = 0;
};

TEST_F(StepStagingTest, PaddingRowsHoldWhatTheRegistryDeclares) {
  ASSERT_TRUE(staging_.validate(batch_, output_).ok());
  staging_.poison(host_.data());
  const int64_t used = pack(batch_, 8, 4);
  EXPECT_LE(used, staging_.bytes());
  EXPECT_EQ(ints("counts", 4), (std::vector<int32_t>{4, 2, 2, 90}));
  EXPECT_EQ(ints("token_ids", 8), (std::vector<int32_t>{5, 6, 7, 8, 0, 0, 0, 0}));
  EXPECT_EQ(ints("positions", 8), (std::vector<int32_t>{0, 1, 2, 16, 0, 0, 0, 0}));
  EXPECT_EQ(ints("token_request", 8), (std::vector<int32_t>{0, 0, 0, 1, -1, -1, -1, -1}));
  EXPECT_EQ(ints("q_start", 5), (std::vector<int32_t>{0, 3, 4, 4, 4}));
  EXPECT_EQ(ints("kv_len", 4), (std::vector<int32_t>{3, 17, 0, 0}));
  EXPECT_EQ(ints("page_start", 5), (std::vector<int32_t>{0, 1, 3, 3, 3}));
  EXPECT_EQ(ints("page_ids", 5), (std::vector<int32_t>{9, 4, 2, 10, 10}));
  EXPECT_EQ(ints("logit_rows", 4), (std::vector<int32_t>{2, 3, 0, 0}));
  EXPECT_EQ(ints("bias_start", 5), (std::vector<int32_t>{0, 0, 0, 0, 0}));
  EXPECT_EQ(ints("history_start", 5), (std::vector<int32_t>{0, 0, 0, 0, 0}));
}

// A larger step before must leave nothing behind in a smaller one's padding.
TEST_F(StepStagingTest, ShrinkingBatchLeavesNothingStale) {
  pack(batch_, 4, 2);
  ForwardBatch smaller = batch_;
  smaller.token_ids = std::span(token_ids_).first(3);
  smaller.positions = std::span(positions_).first(3);
  smaller.q_start = std::span(q_start_).first(2);
  smaller.kv_len = std::span(kv_len_).first(1);
  smaller.page_start = std::span(page_start_).first(2);
  smaller.page_ids = std::span(page_ids_).first(1);
  smaller.logit_rows = std::span(logit_rows_).first(1);
  smaller.sampling = std::span(sampling_).first(1);
  pack(smaller, 4, 2);
  EXPECT_EQ(ints("token_request", 4), (std::vector<int32_t>{0, 0, 0, -1}));
  EXPECT_EQ(ints("kv_len", 2), (std::vector<int32_t>{3, 0}));
  EXPECT_EQ(ints("q_start", 3), (std::vector<int32_t>{0, 3, 3}));
  EXPECT_EQ(ints("page_ids", 2), (std::vector<int32_t>{9, 10}));
}

TEST_F(StepStagingTest, SaysWhatDoesNotFit) {
  EXPECT_EQ(staging_.fits(batch_, output_), Reason::kNone);
  std::array<TokenBias, 6> biases{};
  batch_.biases = biases;
  EXPECT_EQ(staging_.fits(batch_, output_), Reason::kTooManyBiases);
  batch_.biases = {};
  std::array<TokenCount, 7> history{};
  batch_.history = history;
  EXPECT_EQ(staging_.fits(batch_, output_), Reason::kHistoryTooLong);
  batch_.history = {};
  output_.top_logprobs_width = 1;
  EXPECT_EQ(staging_.fits(batch_, output_), Reason::kTooManyLogprobs);
}

// One decode among limits of thousands of tokens is a copy of some hundred bytes.
TEST(StepStagingLayout, SmallStepIsASmallCopy) {
  RunnerLimits limits;
  limits.max_requests = 256;
  limits.max_tokens = 8192;
  limits.max_context = 8192;
  limits.max_history = 1000;
  const StepStaging staging(small_spec(), limits, kKv);
  const auto places = staging.layout(1, 1);
  EXPECT_EQ(places[11].name, "page_ids");
  EXPECT_EQ(places[11].offset, 11 * 64);
  EXPECT_GT(staging.bytes(), 3 * 8192 * 4);
}

TEST_F(StepStagingTest, CopiesOnlyWhatAStepUses) {
  const int64_t plain = pack(batch_, 4, 2);
  std::array<TokenCount, 1> history = {TokenCount{7, 1, 0}};
  std::array<int32_t, 3> history_start = {0, 1, 1};
  batch_.history = history;
  batch_.history_start = history_start;
  const int64_t with_history = pack(batch_, 4, 2);
  EXPECT_LT(plain, with_history);
  EXPECT_EQ(ints("history", 3), (std::vector<int32_t>{7, 1, 0}));
  EXPECT_EQ(ints("history_start", 3), (std::vector<int32_t>{0, 1, 1}));
}

}  // namespace
}  // namespace encore::lowering
