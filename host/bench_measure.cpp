#include "bench_measure.h"

#include <algorithm>
#include <chrono>

namespace encore {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

BenchStepper::BenchStepper(const BenchSizes& sizes) : sizes_(sizes) {}

Result<BenchSample> BenchStepper::prompts(Runner& runner, int32_t batch, int32_t length) {
  BenchSample sample;
  std::vector<Chunk> chunks;
  int32_t request = 0;
  int32_t position = 0;
  while (request < batch) {
    chunks.clear();
    int32_t room = sizes_.max_tokens;
    while (request < batch && room > 0) {
      const int32_t count = std::min(room, length - position);
      chunks.push_back({request, position, count, position + count == length});
      room -= count;
      position += count;
      if (position < length) break;
      position = 0;
      ++request;
    }
    ENCORE_RETURN_IF_ERROR(step(runner, chunks, sample));
    if (sample.reason != Reason::kNone) return sample;
  }
  return sample;
}

Result<BenchSample> BenchStepper::generation(Runner& runner, int32_t batch, int32_t depth,
                                             int32_t length) {
  BenchSample sample;
  std::vector<Chunk> chunks(static_cast<size_t>(batch));
  for (int32_t i = 0; i < length; ++i) {
    for (int32_t request = 0; request < batch; ++request) {
      chunks[request] = {request, depth + i, 1, true};
    }
    ENCORE_RETURN_IF_ERROR(step(runner, chunks, sample));
    if (sample.reason != Reason::kNone) return sample;
  }
  return sample;
}

Result<std::vector<TraceEvent>> BenchStepper::trace(Runner& runner, int32_t batch, int32_t depth,
                                                    int32_t num_tokens) {
  std::vector<Chunk> chunks(static_cast<size_t>(batch));
  for (int32_t request = 0; request < batch; ++request) {
    chunks[request] = {request, depth, num_tokens, true};
  }
  build(chunks);
  const ForwardBatch forward = this->batch();
  const Reason reason = runner.check(forward, output()).reason;
  if (reason != Reason::kNone) {
    return failed_precondition("the runner says " + std::string(reason_name(reason)));
  }
  return runner.trace(forward, output());
}

ForwardBatch BenchStepper::batch() const {
  ForwardBatch batch;
  batch.token_ids = token_ids_;
  batch.positions = positions_;
  batch.q_start = q_start_;
  batch.kv_len = kv_len_;
  batch.page_start = page_start_;
  batch.page_ids = page_ids_;
  batch.logit_rows = logit_rows_;
  batch.sampling = sampling_;
  batch.num_valid_tokens = sizes_.num_valid_tokens;
  return batch;
}

StepOutput BenchStepper::output() {
  StepOutput output;
  output.tokens = sampled_;
  output.row_status = row_status_;
  return output;
}

Status BenchStepper::step(Runner& runner, const std::vector<Chunk>& chunks, BenchSample& sample) {
  build(chunks);
  const ForwardBatch batch = this->batch();
  const StepOutput output = this->output();
  sample.reason = runner.check(batch, output).reason;
  if (sample.reason != Reason::kNone) return {};
  const Clock::time_point start = Clock::now();
  ENCORE_ASSIGN_OR_RETURN(const Ticket ticket, runner.submit(batch, output));
  ENCORE_RETURN_IF_ERROR(runner.wait(ticket, -1));
  sample.seconds += seconds_since(start);
  ++sample.steps;
  return {};
}

void BenchStepper::build(const std::vector<Chunk>& chunks) {
  for (auto* values : {&token_ids_, &positions_, &kv_len_, &page_ids_, &logit_rows_}) {
    values->clear();
  }
  q_start_.assign(1, 0);
  page_start_.assign(1, 0);
  sampling_.clear();
  for (const Chunk& chunk : chunks) {
    const int32_t end = chunk.position + chunk.num_tokens;
    for (int32_t position = chunk.position; position < end; ++position) {
      token_ids_.push_back(next_token());
      positions_.push_back(position);
    }
    q_start_.push_back(static_cast<int32_t>(token_ids_.size()));
    kv_len_.push_back(end);
    const int32_t num_pages = (end + sizes_.page_size - 1) / sizes_.page_size;
    for (int32_t page = 0; page < num_pages; ++page) {
      page_ids_.push_back(chunk.request * sizes_.pages_a_request + page);
    }
    page_start_.push_back(static_cast<int32_t>(page_ids_.size()));
    if (!chunk.wants_logits) continue;
    logit_rows_.push_back(q_start_.back() - 1);
    RowSampling row;
    row.position = end;
    sampling_.push_back(row);
  }
  sampled_.assign(logit_rows_.size(), -1);
  row_status_.assign(logit_rows_.size(), 0);
}

int32_t BenchStepper::next_token() {
  // xorshift64: any ids do, the same ones each time.
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return static_cast<int32_t>(random_ % static_cast<uint64_t>(sizes_.num_valid_tokens));
}

}  // namespace encore
