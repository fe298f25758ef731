#include "step_driver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "plugin_under_test.h"

namespace encore::testing {

ForwardBatch OwnedBatch::view() const {
  ForwardBatch batch;
  batch.token_ids = token_ids;
  batch.positions = positions;
  batch.q_start = q_start;
  batch.kv_len = kv_len;
  batch.page_start = page_start;
  batch.page_ids = page_ids;
  batch.logit_rows = logit_rows;
  batch.sampling = sampling;
  batch.num_valid_tokens = num_valid_tokens;
  return batch;
}

StepDriver::StepDriver(const ModelSpec& spec, KvCache& kv) : vocab_size_(spec.vocab_size), kv_(kv) {
  for (int32_t page = 0; page < kv.info().num_pages; ++page) free_pages_.push_back(page);
}

Sequence StepDriver::start(std::vector<int32_t> tokens) {
  Sequence sequence;
  sequence.tokens = std::move(tokens);
  return sequence;
}

void StepDriver::extend(Sequence& sequence, int32_t count) {
  const int32_t page_size = kv_.info().page_size;
  const auto needed = static_cast<size_t>((sequence.cached + count + page_size - 1) / page_size);
  while (sequence.pages.size() < needed) {
    ASSERT_FALSE(free_pages_.empty()) << "the test's page pool is too small";
    sequence.pages.push_back(free_pages_.back());
    free_pages_.pop_back();
  }
}

void StepDriver::finish(Sequence& sequence) {
  free_pages_.insert(free_pages_.end(), sequence.pages.rbegin(), sequence.pages.rend());
  sequence.pages.clear();
}

OwnedBatch StepDriver::batch_of(const std::vector<Work>& work) {
  OwnedBatch batch;
  batch.num_valid_tokens = static_cast<int32_t>(vocab_size_);
  batch.q_start.push_back(0);
  batch.page_start.push_back(0);
  for (const Work& item : work) {
    Sequence& sequence = *item.sequence;
    extend(sequence, item.count);
    for (int32_t i = 0; i < item.count; ++i) {
      batch.token_ids.push_back(sequence.tokens[sequence.cached + i]);
      batch.positions.push_back(sequence.cached + i);
    }
    batch.q_start.push_back(static_cast<int32_t>(batch.token_ids.size()));
    batch.kv_len.push_back(sequence.cached + item.count);
    batch.page_ids.insert(batch.page_ids.end(), sequence.pages.begin(), sequence.pages.end());
    batch.page_start.push_back(static_cast<int32_t>(batch.page_ids.size()));
    if (item.wants_logits) {
      batch.logit_rows.push_back(batch.q_start.back() - 1);
      batch.sampling.push_back(sequence.sampling);
      batch.sampling.back().position = sequence.cached + item.count;
    }
  }
  return batch;
}

StepResult StepDriver::run(Runner& runner, const std::vector<Work>& work) {
  const OwnedBatch batch = batch_of(work);
  const size_t rows = batch.logit_rows.size();
  const auto vocab = static_cast<size_t>(vocab_size_);
  StepResult result;
  result.tokens.assign(rows, -7);
  result.row_status.assign(rows, -7);
  result.logprobs.assign(rows, NAN);
  std::vector<float> logits(rows * vocab, NAN);
  StepOutput output;
  output.tokens = result.tokens;
  output.row_status = result.row_status;
  output.logprobs = result.logprobs;
  output.logits = logits;
  const RunnerCheck check = runner.check(batch.view(), output);
  EXPECT_EQ(check.reason, Reason::kNone) << reason_name(check.reason);
  const auto ticket = runner.submit(batch.view(), output);
  EXPECT_TRUE(ticket.ok()) << ticket.status().to_string();
  if (!ticket.ok()) return result;
  const Status waited = runner.wait(*ticket, -1);
  EXPECT_TRUE(waited.ok()) << waited.to_string();
  for (size_t row = 0; row < rows; ++row) {
    const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(row * vocab);
    result.logits.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(vocab));
  }
  for (const Work& item : work) item.sequence->cached += item.count;
  return result;
}

StepResult StepDriver::run_and_append(Runner& runner, const std::vector<Work>& work) {
  StepResult result = run(runner, work);
  size_t row = 0;
  for (const Work& item : work) {
    if (item.wants_logits) item.sequence->tokens.push_back(result.tokens[row++]);
  }
  return result;
}

std::vector<uint64_t> StepDriver::page_hashes() const {
  std::vector<uint64_t> hashes;
  std::vector<std::byte> page(static_cast<size_t>(kv_.info().page_bytes));
  for (int32_t id = 0; id < kv_.info().num_pages; ++id) {
    const Status read = kv_.read_page(id, page);
    EXPECT_TRUE(read.ok()) << read.to_string();
    uint64_t hash = 14695981039346656037ULL;  // FNV-1a
    for (const std::byte value : page) {
      hash = (hash ^ static_cast<uint64_t>(value)) * 1099511628211ULL;
    }
    hashes.push_back(hash);
  }
  return hashes;
}

std::vector<int32_t> random_tokens(uint64_t seed, int32_t count, int64_t vocab_size) {
  std::vector<int32_t> tokens;
  uint64_t state = seed * 2862933555777941757ULL + 3037000493ULL;
  for (int32_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    tokens.push_back(static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(vocab_size)));
  }
  return tokens;
}

std::vector<int32_t> greedy(StepDriver& driver, Runner& prefill, Runner& decode,
                            const std::vector<int32_t>& prompt, int32_t steps) {
  Sequence sequence = driver.start(prompt);
  driver.run_and_append(prefill, {{&sequence, static_cast<int32_t>(prompt.size())}});
  for (int32_t step = 1; step < steps; ++step) driver.run_and_append(decode, {{&sequence, 1}});
  driver.finish(sequence);
  return {sequence.tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()),
          sequence.tokens.end()};
}

void expect_same_logits(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  const float tolerance = plugin_arguments().logit_tolerance;
  for (size_t i = 0; i < found.size(); ++i) {
    const bool same = tolerance == 0.0F ? std::memcmp(&found[i], &expected[i], sizeof(float)) == 0
                                        : std::fabs(found[i] - expected[i]) <= tolerance;
    ASSERT_TRUE(same) << "logit " << i << " is " << found[i] << ", expected " << expected[i];
  }
}

}  // namespace encore::testing
