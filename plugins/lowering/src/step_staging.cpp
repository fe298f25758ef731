#include "encore/lowering/step_staging.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

namespace encore::lowering {
namespace {

constexpr int64_t kInputAlignment = 64;
constexpr int32_t kNumCounts = 16;  // one cache line of scalars
constexpr auto kPoisonByte = static_cast<std::byte>(0xAB);

std::string entry(std::string_view field, int64_t index) {
  return std::string(field) + "[" + std::to_string(index) + "]";
}

Status out_of_range(const std::string& what, int64_t value, int64_t low, int64_t high) {
  return invalid_argument(what + " is " + std::to_string(value) + "; it must be from " +
                          std::to_string(low) + " to " + std::to_string(high));
}

Status check_size(std::string_view field, size_t found, size_t expected) {
  if (found == expected) return {};
  return invalid_argument(std::string(field) + " has " + std::to_string(found) +
                          " entries; the batch needs " + std::to_string(expected));
}

// A CSR index: starts at 0, never falls, ends at the number of entries.
Status check_index(std::string_view field, std::span<const int32_t> index, size_t rows,
                   size_t entries) {
  ENCORE_RETURN_IF_ERROR(check_size(field, index.size(), rows + 1));
  if (index[0] != 0) return out_of_range(entry(field, 0), index[0], 0, 0);
  for (size_t i = 0; i < rows; ++i) {
    if (index[i + 1] < index[i]) {
      return invalid_argument(entry(field, static_cast<int64_t>(i) + 1) + " is " +
                              std::to_string(index[i + 1]) + ", less than the entry before, " +
                              std::to_string(index[i]));
    }
  }
  if (static_cast<size_t>(index[rows]) != entries) {
    return out_of_range(entry(field, static_cast<int64_t>(rows)), index[rows],
                        static_cast<int64_t>(entries), static_cast<int64_t>(entries));
  }
  return {};
}

}  // namespace

StepStaging::StepStaging(const ModelSpec& spec, const RunnerLimits& limits, const KvInfo& kv)
    : limits_(limits),
      kv_(kv),
      vocab_size_(spec.vocab_size),
      max_pages_per_request_((limits.max_context + kv.page_size - 1) / kv.page_size) {
  const StaticInput last = layout(limits.max_tokens, limits.max_requests).back();
  bytes_ = last.offset + last.element_bytes * last.capacity;
}

std::array<StaticInput, StepStaging::kNumInputs> StepStaging::layout(int32_t tokens,
                                                                     int32_t requests) const {
  constexpr auto kInt = static_cast<int64_t>(sizeof(int32_t));
  // Small arrays first: a step copies from the start to the last byte it uses.
  std::array<StaticInput, kNumInputs> inputs = {{
      {"counts", 0, kInt, kNumCounts, Padding::kNone},
      {"token_ids", 0, kInt, tokens, Padding::kZero},
      {"positions", 0, kInt, tokens, Padding::kZero},
      {"token_request", 0, kInt, tokens, Padding::kNoRequest},
      {"q_start", 0, kInt, requests + 1, Padding::kRepeatLast},
      {"kv_len", 0, kInt, requests, Padding::kZero},
      {"page_start", 0, kInt, requests + 1, Padding::kRepeatLast},
      {"logit_rows", 0, kInt, requests, Padding::kZero},
      {"sampling", 0, sizeof(RowSampling), requests, Padding::kZero},
      {"bias_start", 0, kInt, requests + 1, Padding::kRepeatLast},
      {"history_start", 0, kInt, requests + 1, Padding::kRepeatLast},
      {"page_ids", 0, kInt, int64_t{requests} * max_pages_per_request_, Padding::kSinkPage},
      {"biases", 0, sizeof(TokenBias), limits_.max_biases, Padding::kNone},
      {"history", 0, sizeof(TokenCount), limits_.max_history, Padding::kNone},
  }};
  int64_t offset = 0;
  for (StaticInput& input : inputs) {
    input.offset = offset;
    const int64_t end = offset + input.element_bytes * input.capacity;
    offset = (end + kInputAlignment - 1) / kInputAlignment * kInputAlignment;
  }
  return inputs;
}

StepInputs StepStaging::inputs_at(const std::byte* base, int32_t tokens, int32_t requests,
                                  bool decode_only) const {
  const std::array<StaticInput, kNumInputs> places = layout(tokens, requests);
  const auto address = [&](Input input) { return base + places[input].offset; };
  const auto ints = [&](Input input) { return reinterpret_cast<const int32_t*>(address(input)); };
  StepInputs inputs;
  inputs.max_tokens = tokens;
  inputs.max_requests = requests;
  inputs.decode_only = decode_only;
  const int32_t* counts = ints(kCounts);
  inputs.num_tokens = counts;
  inputs.num_requests = counts + 1;
  inputs.num_logit_rows = counts + 2;
  inputs.num_valid_tokens = counts + 3;
  inputs.token_ids = ints(kTokenIds);
  inputs.positions = ints(kPositions);
  inputs.token_request = ints(kTokenRequest);
  inputs.q_start = ints(kQStart);
  inputs.kv_len = ints(kKvLen);
  inputs.page_start = ints(kPageStart);
  inputs.page_ids = ints(kPageIds);
  inputs.logit_rows = ints(kLogitRows);
  inputs.sampling = reinterpret_cast<const RowSampling*>(address(kSampling));
  inputs.bias_start = ints(kBiasStart);
  inputs.biases = reinterpret_cast<const TokenBias*>(address(kBiases));
  inputs.history_start = ints(kHistoryStart);
  inputs.history = reinterpret_cast<const TokenCount*>(address(kHistory));
  return inputs;
}

Reason StepStaging::fits(const ForwardBatch& batch, const StepOutput& output) const {
  if (batch.num_tokens() > limits_.max_tokens) return Reason::kTooManyTokens;
  if (batch.num_requests() > limits_.max_requests) return Reason::kTooManyRequests;
  if (batch.num_logit_rows() > limits_.max_requests) return Reason::kTooManyLogitRows;
  for (size_t i = 0; i + 1 < batch.page_start.size(); ++i) {
    if (batch.page_start[i + 1] - batch.page_start[i] > max_pages_per_request_) {
      return Reason::kContextTooLong;
    }
  }
  if (std::cmp_greater(batch.biases.size(), limits_.max_biases)) return Reason::kTooManyBiases;
  if (std::cmp_greater(batch.history.size(), limits_.max_history)) return Reason::kHistoryTooLong;
  if (output.top_logprobs_width > limits_.max_logprobs) return Reason::kTooManyLogprobs;
  return Reason::kNone;
}

Status StepStaging::validate(const ForwardBatch& batch, const StepOutput& output) const {
  if (batch.num_tokens() < 1) return out_of_range("the number of tokens", 0, 1, limits_.max_tokens);
  ENCORE_RETURN_IF_ERROR(validate_requests(batch));
  ENCORE_RETURN_IF_ERROR(validate_tokens(batch));
  return validate_rows(batch, output);
}

Status StepStaging::validate_requests(const ForwardBatch& batch) const {
  const size_t requests = batch.kv_len.size();
  ENCORE_RETURN_IF_ERROR(check_index("q_start", batch.q_start, requests, batch.token_ids.size()));
  ENCORE_RETURN_IF_ERROR(
      check_index("page_start", batch.page_start, requests, batch.page_ids.size()));
  for (size_t i = 0; i < requests; ++i) {
    const int32_t new_tokens = batch.q_start[i + 1] - batch.q_start[i];
    const int32_t pages = batch.page_start[i + 1] - batch.page_start[i];
    const int64_t capacity = int64_t{pages} * kv_.page_size;
    if (batch.kv_len[i] < new_tokens || batch.kv_len[i] > capacity) {
      return out_of_range(entry("kv_len", static_cast<int64_t>(i)), batch.kv_len[i], new_tokens,
                          capacity);
    }
  }
  for (size_t i = 0; i < batch.page_ids.size(); ++i) {
    if (batch.page_ids[i] < 0 || batch.page_ids[i] >= kv_.num_pages) {
      return out_of_range(entry("page_ids", static_cast<int64_t>(i)), batch.page_ids[i], 0,
                          kv_.num_pages - 1);
    }
  }
  return {};
}

Status StepStaging::validate_tokens(const ForwardBatch& batch) const {
  ENCORE_RETURN_IF_ERROR(check_size("positions", batch.positions.size(), batch.token_ids.size()));
  for (size_t i = 0; i < batch.kv_len.size(); ++i) {
    const int32_t end = batch.q_start[i + 1];
    for (int32_t row = batch.q_start[i]; row < end; ++row) {
      const int32_t token = batch.token_ids[static_cast<size_t>(row)];
      if (token < -limits_.max_requests || token >= vocab_size_) {
        return out_of_range(entry("token_ids", row), token, -limits_.max_requests, vocab_size_ - 1);
      }
      const int32_t expected = batch.kv_len[i] - end + row;
      if (batch.positions[static_cast<size_t>(row)] != expected) {
        return out_of_range(entry("positions", row), batch.positions[static_cast<size_t>(row)],
                            expected, expected);
      }
    }
  }
  return {};
}

Status StepStaging::validate_rows(const ForwardBatch& batch, const StepOutput& output) const {
  const size_t rows = batch.logit_rows.size();
  for (size_t i = 0; i < rows; ++i) {
    const int32_t low = i == 0 ? 0 : batch.logit_rows[i - 1] + 1;
    if (batch.logit_rows[i] < low || batch.logit_rows[i] >= batch.num_tokens()) {
      return out_of_range(entry("logit_rows", static_cast<int64_t>(i)), batch.logit_rows[i], low,
                          batch.num_tokens() - 1);
    }
  }
  ENCORE_RETURN_IF_ERROR(check_size("sampling", batch.sampling.size(), rows));
  for (size_t i = 0; i < rows; ++i) {
    const RowSampling& row = batch.sampling[i];
    const bool sane = std::isfinite(row.temperature) && row.temperature >= 0.0F &&
                      row.top_p > 0.0F && row.top_p <= 1.0F && row.min_p >= 0.0F &&
                      row.min_p <= 1.0F && std::isfinite(row.repetition_penalty) &&
                      row.repetition_penalty > 0.0F && std::isfinite(row.presence_penalty) &&
                      std::isfinite(row.frequency_penalty);
    if (!sane) {
      return invalid_argument(entry("sampling", static_cast<int64_t>(i)) +
                              " has a parameter out of range; see RowSampling");
    }
    if (row.num_logprobs > output.top_logprobs_width) {
      return out_of_range(entry("sampling", static_cast<int64_t>(i)) + ".num_logprobs",
                          row.num_logprobs, -1, output.top_logprobs_width);
    }
  }
  if (!batch.bias_start.empty() || !batch.biases.empty()) {
    ENCORE_RETURN_IF_ERROR(check_index("bias_start", batch.bias_start, rows, batch.biases.size()));
  }
  if (!batch.history_start.empty() || !batch.history.empty()) {
    ENCORE_RETURN_IF_ERROR(
        check_index("history_start", batch.history_start, rows, batch.history.size()));
  }
  for (size_t i = 0; i < batch.biases.size(); ++i) {
    if (batch.biases[i].token < 0 || batch.biases[i].token >= vocab_size_) {
      return out_of_range(entry("biases", static_cast<int64_t>(i)) + ".token",
                          batch.biases[i].token, 0, vocab_size_ - 1);
    }
  }
  for (size_t i = 0; i < batch.history.size(); ++i) {
    if (batch.history[i].token < 0 || batch.history[i].token >= vocab_size_) {
      return out_of_range(entry("history", static_cast<int64_t>(i)) + ".token",
                          batch.history[i].token, 0, vocab_size_ - 1);
    }
  }
  if (batch.num_valid_tokens < 1 || batch.num_valid_tokens > vocab_size_) {
    return out_of_range("num_valid_tokens", batch.num_valid_tokens, 1, vocab_size_);
  }
  return validate_output(output, rows);
}

Status StepStaging::validate_output(const StepOutput& output, size_t rows) const {
  ENCORE_RETURN_IF_ERROR(check_size("output.tokens", output.tokens.size(), rows));
  ENCORE_RETURN_IF_ERROR(check_size("output.row_status", output.row_status.size(), rows));
  if (!output.logprobs.empty()) {
    ENCORE_RETURN_IF_ERROR(check_size("output.logprobs", output.logprobs.size(), rows));
  }
  if (output.top_logprobs_width < 0) {
    return out_of_range("output.top_logprobs_width", output.top_logprobs_width, 0,
                        limits_.max_logprobs);
  }
  const size_t top = rows * static_cast<size_t>(output.top_logprobs_width);
  ENCORE_RETURN_IF_ERROR(check_size("output.top_tokens", output.top_tokens.size(), top));
  ENCORE_RETURN_IF_ERROR(check_size("output.top_logprobs", output.top_logprobs.size(), top));
  if (output.logits.empty()) return {};
  return check_size("output.logits", output.logits.size(), rows * static_cast<size_t>(vocab_size_));
}

template <typename T>
void StepStaging::put(const StaticInput& input, std::span<const T> live, int64_t padded,
                      std::byte* host) const {
  T* target = reinterpret_cast<T*>(host + input.offset);
  T* end = target + padded;
  target = std::copy(live.begin(), live.end(), target);
  if (target >= end) return;
  if constexpr (std::is_same_v<T, int32_t>) {
    switch (input.padding) {
      case Padding::kRepeatLast:
        std::fill(target, end, live.empty() ? 0 : live.back());
        return;
      case Padding::kNoRequest:
        std::fill(target, end, -1);
        return;
      case Padding::kSinkPage:
        std::fill(target, end, kv_.num_pages);
        return;
      case Padding::kZero:
      case Padding::kNone:
        break;
    }
  }
  std::fill(target, end, T{});
}

int64_t StepStaging::pack(const ForwardBatch& batch, int32_t padded_tokens, int32_t padded_requests,
                          std::byte* host) const {
  const std::array<StaticInput, kNumInputs> places = layout(padded_tokens, padded_requests);
  const auto ints = [&](Input input) {
    return reinterpret_cast<int32_t*>(host + places[input].offset);
  };
  const auto fill = [&](Input input, auto live, int64_t padded) {
    put(places[input], live, padded, host);
  };
  int32_t* counts = ints(kCounts);
  std::fill(counts, counts + kNumCounts, 0);
  counts[0] = batch.num_tokens();
  counts[1] = batch.num_requests();
  counts[2] = batch.num_logit_rows();
  counts[3] = batch.num_valid_tokens;
  fill(kTokenIds, batch.token_ids, padded_tokens);
  fill(kPositions, batch.positions, padded_tokens);
  int32_t* token_request = ints(kTokenRequest);
  for (int32_t i = 0; i < batch.num_requests(); ++i) {
    const auto row = static_cast<size_t>(i);
    std::fill(token_request + batch.q_start[row], token_request + batch.q_start[row + 1], i);
  }
  std::fill(token_request + batch.num_tokens(), token_request + padded_tokens, -1);
  fill(kQStart, batch.q_start, padded_requests + 1);
  fill(kKvLen, batch.kv_len, padded_requests);
  fill(kPageStart, batch.page_start, padded_requests + 1);
  fill(kLogitRows, batch.logit_rows, padded_requests);
  fill(kSampling, batch.sampling, padded_requests);
  fill(kBiasStart, batch.bias_start, padded_requests + 1);
  fill(kHistoryStart, batch.history_start, padded_requests + 1);
  // Each padding request could look one page up: give it the sink.
  const auto live_pages = static_cast<int64_t>(batch.page_ids.size());
  const int64_t padded_pages =
      std::min(live_pages + padded_requests - batch.num_requests(), places[kPageIds].capacity);
  fill(kPageIds, batch.page_ids, padded_pages);
  fill(kBiases, batch.biases, 0);
  fill(kHistory, batch.history, 0);
  const auto end_of = [&](Input input, int64_t count) {
    return places[input].offset + count * places[input].element_bytes;
  };
  if (!batch.history.empty()) return end_of(kHistory, static_cast<int64_t>(batch.history.size()));
  if (!batch.biases.empty()) return end_of(kBiases, static_cast<int64_t>(batch.biases.size()));
  return end_of(kPageIds, padded_pages);
}

void StepStaging::poison(std::byte* host) const { std::fill(host, host + bytes_, kPoisonByte); }

}  // namespace encore::lowering
