#include "step_driver.h"

#include <cmath>
#include <string>
#include <utility>

namespace encore::check {
namespace {

constexpr int32_t kUnwritten = -7;
constexpr int64_t kStepTimeoutUs = 30'000'000;

template <typename T>
std::vector<std::vector<T>> rows_of(const std::vector<T>& values, size_t num_rows, size_t width) {
  std::vector<std::vector<T>> rows;
  if (values.empty()) return rows;
  for (size_t row = 0; row < num_rows; ++row) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row * width);
    rows.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(width));
  }
  return rows;
}

void add_logit_row(const Request& request, int32_t length, OwnedBatch& batch) {
  batch.logit_rows.push_back(batch.q_start.back() - 1);
  batch.sampling.push_back(request.sampling);
  batch.sampling.back().position =
      request.sampling_position < 0 ? length : request.sampling_position;
  batch.biases.insert(batch.biases.end(), request.biases.begin(), request.biases.end());
  batch.history.insert(batch.history.end(), request.history.begin(), request.history.end());
  batch.bias_start.push_back(static_cast<int32_t>(batch.biases.size()));
  batch.history_start.push_back(static_cast<int32_t>(batch.history.size()));
}

}  // namespace

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
  if (!biases.empty()) {
    batch.bias_start = bias_start;
    batch.biases = biases;
  }
  if (!history.empty()) {
    batch.history_start = history_start;
    batch.history = history;
  }
  batch.num_valid_tokens = num_valid_tokens;
  return batch;
}

OwnedOutput::OwnedOutput(size_t num_rows, int64_t vocabulary, const StepOptions& options)
    : tokens(num_rows, kUnwritten),
      row_status(num_rows, kUnwritten),
      top_tokens(num_rows * static_cast<size_t>(options.num_top), kUnwritten),
      logprobs(num_rows, NAN),
      top_logprobs(top_tokens.size(), NAN),
      vocab_size(static_cast<size_t>(vocabulary)),
      num_top(options.num_top) {
  if (options.whole_logits) logits.assign(num_rows * vocab_size, NAN);
}

StepOutput OwnedOutput::view() {
  StepOutput output;
  output.tokens = tokens;
  output.row_status = row_status;
  output.logprobs = logprobs;
  output.top_logprobs_width = num_top;
  output.top_tokens = top_tokens;
  output.top_logprobs = top_logprobs;
  output.logits = logits;
  return output;
}

StepResult OwnedOutput::result() const {
  StepResult result;
  result.tokens = tokens;
  result.row_status = row_status;
  result.logprobs = logprobs;
  result.top_tokens = rows_of(top_tokens, tokens.size(), static_cast<size_t>(num_top));
  result.top_logprobs = rows_of(top_logprobs, tokens.size(), static_cast<size_t>(num_top));
  result.logits = rows_of(logits, tokens.size(), vocab_size);
  return result;
}

StepDriver::StepDriver(int64_t vocab_size, KvCache& kv) : vocab_size_(vocab_size), kv_(kv) {
  for (int32_t page = 0; page < kv.info().num_pages; ++page) free_pages_.push_back(page);
}

Status StepDriver::reserve(Request& request, int32_t count) {
  const int32_t page_size = kv_.info().page_size;
  const auto needed = static_cast<size_t>((request.cached + count + page_size - 1) / page_size);
  while (request.pages.size() < needed) {
    if (free_pages_.empty()) {
      return out_of_memory("the rule's KV cache of " + std::to_string(kv_.info().num_pages) +
                           " pages is used up");
    }
    request.pages.push_back(free_pages_.back());
    free_pages_.pop_back();
  }
  return {};
}

void StepDriver::finish(Request& request) {
  free_pages_.insert(free_pages_.end(), request.pages.rbegin(), request.pages.rend());
  request.pages.clear();
  request.cached = 0;
}

Result<OwnedBatch> StepDriver::batch_of(std::span<const Work> work, const StepOptions& options) {
  OwnedBatch batch;
  batch.num_valid_tokens =
      options.num_valid_tokens > 0 ? options.num_valid_tokens : static_cast<int32_t>(vocab_size_);
  batch.q_start.push_back(0);
  batch.page_start.push_back(0);
  batch.bias_start.push_back(0);
  batch.history_start.push_back(0);
  for (const Work& item : work) {
    Request& request = *item.request;
    ENCORE_RETURN_IF_ERROR(reserve(request, item.count));
    for (int32_t i = 0; i < item.count; ++i) {
      batch.token_ids.push_back(
          request.tokens.at(static_cast<size_t>(request.cached) + static_cast<size_t>(i)));
      batch.positions.push_back(request.cached + i);
    }
    batch.q_start.push_back(static_cast<int32_t>(batch.token_ids.size()));
    batch.kv_len.push_back(request.cached + item.count);
    batch.page_ids.insert(batch.page_ids.end(), request.pages.begin(), request.pages.end());
    batch.page_start.push_back(static_cast<int32_t>(batch.page_ids.size()));
    if (item.wants_logits) add_logit_row(request, request.cached + item.count, batch);
  }
  return batch;
}

Result<StepResult> StepDriver::run(Runner& runner, std::span<const Work> work,
                                   const StepOptions& options) {
  ENCORE_ASSIGN_OR_RETURN(const OwnedBatch batch, batch_of(work, options));
  OwnedOutput output(batch.logit_rows.size(), vocab_size_, options);
  const StepOutput target = output.view();
  const RunnerCheck check = runner.check(batch.view(), target);
  if (!check.ok()) {
    return failed_precondition("the " + std::string(runner_kind_name(runner.kind())) +
                               " runner says that it cannot run a step of " +
                               std::to_string(batch.token_ids.size()) + " tokens for " +
                               std::to_string(work.size()) +
                               " requests: " + std::string(reason_name(check.reason)));
  }
  ENCORE_ASSIGN_OR_RETURN(const Ticket ticket, runner.submit(batch.view(), target));
  ENCORE_RETURN_IF_ERROR(runner.wait(ticket, kStepTimeoutUs));
  for (const Work& item : work) item.request->cached += item.count;
  return output.result();
}

Result<StepResult> StepDriver::run_and_append(Runner& runner, std::span<const Work> work,
                                              const StepOptions& options) {
  ENCORE_ASSIGN_OR_RETURN(StepResult result, run(runner, work, options));
  size_t row = 0;
  for (const Work& item : work) {
    if (item.wants_logits) item.request->tokens.push_back(result.tokens[row++]);
  }
  return result;
}

Result<std::vector<uint64_t>> StepDriver::page_hashes() const {
  const KvInfo info = kv_.info();
  std::vector<uint64_t> hashes;
  std::vector<std::byte> page(static_cast<size_t>(info.page_bytes));
  for (int32_t id = 0; id < info.num_pages; ++id) {
    ENCORE_RETURN_IF_ERROR(kv_.read_page(id, page));
    uint64_t hash = 14695981039346656037ULL;  // FNV-1a
    for (const std::byte value : page) {
      hash = (hash ^ static_cast<uint64_t>(value)) * 1099511628211ULL;
    }
    hashes.push_back(hash);
  }
  return hashes;
}

Request make_request(std::vector<int32_t> tokens) {
  Request request;
  request.tokens = std::move(tokens);
  return request;
}

std::vector<int32_t> random_tokens(uint64_t seed, int32_t count, int64_t vocab_size) {
  std::vector<int32_t> tokens;
  uint64_t state = seed * 2862933555777941757ULL + 3037000493ULL;
  for (int32_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    tokens.push_back(static_cast<int32_t>((state >> 33U) % static_cast<uint64_t>(vocab_size)));
  }
  return tokens;
}

}  // namespace encore::check
