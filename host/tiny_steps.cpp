#include "tiny_steps.h"

#include <spdlog/spdlog.h>

#include <array>
#include <string>

#include "encore/forward_batch.h"
#include "tiny_model.h"

namespace encore {
namespace {

constexpr std::array<int32_t, 2> kPromptTokens = {9, 20};
constexpr std::array<int32_t, 2> kPages = {1, 2};
constexpr int32_t kDecodeSteps = 3;
constexpr int64_t kPatienceUs = 30'000'000;

// The tokens of request `request` at any position.
int32_t token_at(int32_t request, int32_t position, int64_t vocab_size) {
  return static_cast<int32_t>((37 * position + 101 * request + 5) % vocab_size);
}

// A batch with the arrays behind it.
struct TinyBatch {
  std::vector<int32_t> token_ids, positions, q_start = {0}, kv_len, page_start = {0}, page_ids;
  std::vector<int32_t> logit_rows;
  std::vector<RowSampling> sampling;
  int32_t vocab_size = 0;

  ForwardBatch view() const {
    ForwardBatch batch;
    batch.token_ids = token_ids;
    batch.positions = positions;
    batch.q_start = q_start;
    batch.kv_len = kv_len;
    batch.page_start = page_start;
    batch.page_ids = page_ids;
    batch.logit_rows = logit_rows;
    batch.sampling = sampling;
    batch.num_valid_tokens = vocab_size;
    return batch;
  }
};

// Step 0 brings both prompts, each later one a token of each request.
TinyBatch batch_of_step(int32_t step, int32_t first_page) {
  TinyBatch batch;
  batch.vocab_size = static_cast<int32_t>(tiny_spec().vocab_size);
  int32_t page = first_page;
  for (int32_t request = 0; request < 2; ++request) {
    const int32_t end = kPromptTokens[request] + step;
    for (int32_t position = step == 0 ? 0 : end - 1; position < end; ++position) {
      batch.token_ids.push_back(token_at(request, position, batch.vocab_size));
      batch.positions.push_back(position);
    }
    batch.q_start.push_back(static_cast<int32_t>(batch.token_ids.size()));
    batch.kv_len.push_back(end);
    for (int32_t i = 0; i < kPages[request]; ++i) batch.page_ids.push_back(page++);
    batch.page_start.push_back(static_cast<int32_t>(batch.page_ids.size()));
    batch.logit_rows.push_back(batch.q_start.back() - 1);
    RowSampling sampling;
    sampling.position = end;
    batch.sampling.push_back(sampling);
  }
  return batch;
}

Status cannot_run(const Runner& runner, int32_t step, Reason reason) {
  return failed_precondition("the " + std::string(runner_kind_name(runner.kind())) +
                             " runner cannot run step " + std::to_string(step) + ": " +
                             std::string(reason_name(reason)));
}

// The step writes to the caller's arrays, so they cannot be given up: waits on, and says so.
Status wait(Runner& runner, Ticket ticket, int32_t step) {
  for (;;) {
    Status status = runner.wait(ticket, kPatienceUs);
    if (status.code() != StatusCode::kDeadlineExceeded) return status;
    spdlog::warn("self-test: still waiting for step {} of the {} runner", step,
                 runner_kind_name(runner.kind()));
  }
}

// Appends to `result`, logits only if `logits` says that this run has them so far.
Status run_step(Runner& runner, int32_t step, int32_t first_page, bool& logits,
                TinyResult& result) {
  const TinyBatch arrays = batch_of_step(step, first_page);
  const ForwardBatch batch = arrays.view();
  const size_t rows = arrays.logit_rows.size();
  const auto vocab = static_cast<size_t>(arrays.vocab_size);
  std::vector<int32_t> tokens(rows, -1);
  std::vector<int32_t> row_status(rows, -1);
  std::vector<float> values(rows * vocab);
  StepOutput output;
  output.tokens = tokens;
  output.row_status = row_status;
  if (logits) output.logits = values;
  RunnerCheck check = runner.check(batch, output);
  if (check.reason == Reason::kLogitsRequested) {
    logits = false;
    output.logits = {};
    check = runner.check(batch, output);
  }
  if (!check.ok()) return cannot_run(runner, step, check.reason);
  ENCORE_ASSIGN_OR_RETURN(const Ticket ticket, runner.submit(batch, output));
  ENCORE_RETURN_IF_ERROR(wait(runner, ticket, step));
  for (size_t row = 0; row < rows; ++row) {
    if (row_status[row] != static_cast<int32_t>(RowStatus::kOk)) {
      return internal_error("step " + std::to_string(step) + " gives row " + std::to_string(row) +
                            " the status " + std::to_string(row_status[row]));
    }
    result.tokens.push_back(tokens[row]);
    const float* begin = &values[row * vocab];
    result.logits.emplace_back(begin, begin + vocab);
  }
  return {};
}

}  // namespace

Result<TinyResult> run_tiny_steps(Runner& prefill, Runner& decode, int32_t first_page) {
  TinyResult result;
  bool logits = true;
  ENCORE_RETURN_IF_ERROR(run_step(prefill, 0, first_page, logits, result));
  for (int32_t step = 1; step <= kDecodeSteps; ++step) {
    ENCORE_RETURN_IF_ERROR(run_step(decode, step, first_page, logits, result));
  }
  if (!logits) result.logits.clear();
  return result;
}

}  // namespace encore
