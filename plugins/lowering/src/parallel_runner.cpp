#include "parallel_runner.h"

#include <algorithm>
#include <string>
#include <utility>

namespace encore::lowering {
namespace {

using Clock = std::chrono::steady_clock;

Status check_room(const char* name, size_t found, size_t room) {
  if (found <= room) return {};
  return invalid_argument(std::string(name) + " has " + std::to_string(found) +
                          " elements; the runner was made for " + std::to_string(room));
}

}  // namespace

ParallelRunner::ParallelRunner(std::shared_ptr<ParallelCore> core,
                               std::vector<RunnerCapture>& captures, const RunnerLimits& limits)
    : core_(std::move(core)), kind_(captures.front().runner->kind()) {
  for (RunnerCapture& capture : captures) {
    // Every runner of a LoweredModel is one.
    parts_.emplace_back(static_cast<StepRunner*>(capture.runner.release()));
  }
  const auto rows = static_cast<size_t>(limits.max_requests);
  const size_t top = rows * static_cast<size_t>(limits.max_logprobs);
  for (Slot& slot : slots_) {
    slot.ranks.resize(parts_.size());
    for (RankStep& rank : slot.ranks) {
      rank.tokens.resize(rows);
      rank.row_status.resize(rows);
      rank.top_tokens.resize(top);
      rank.top_logprobs.resize(top);
    }
  }
}

RunnerCapture ParallelRunner::join(std::shared_ptr<ParallelCore> core,
                                   std::vector<RunnerCapture> captures,
                                   const RunnerLimits& limits) {
  std::vector<CaptureReport> reports;
  reports.reserve(captures.size());
  for (RunnerCapture& capture : captures) reports.push_back(std::move(capture.report));
  std::unique_ptr<ParallelRunner> runner(new ParallelRunner(std::move(core), captures, limits));
  CaptureReport report = runner->merge(reports);
  return {std::move(runner), std::move(report)};
}

CaptureReport ParallelRunner::merge(const std::vector<CaptureReport>& reports) {
  CaptureReport sum;
  for (size_t i = 0; i < reports.front().buckets.size(); ++i) {
    sum.buckets.push_back(merge_bucket(reports, i));
    sum.executable_bytes += sum.buckets.back().executable_bytes;
  }
  for (const CaptureReport& report : reports) {
    sum.arena_bytes += report.arena_bytes;
    sum.static_bytes += report.static_bytes;
    sum.workspace_bytes += report.workspace_bytes;
    sum.host_bytes += report.host_bytes;
    sum.total_us = std::max(sum.total_us, report.total_us);
  }
  return sum;
}

BucketReport ParallelRunner::merge_bucket(const std::vector<CaptureReport>& reports, size_t index) {
  BucketReport sum = reports.front().buckets[index];
  for (size_t rank = 1; rank < reports.size(); ++rank) {
    const BucketReport& other = reports[rank].buckets[index];
    sum.arena_bytes += other.arena_bytes;
    sum.executable_bytes += other.executable_bytes;
    sum.workspace_bytes += other.workspace_bytes;
    sum.capture_us = std::max(sum.capture_us, other.capture_us);
  }
  const auto skipped = std::find_if(reports.begin(), reports.end(), [&](const auto& report) {
    return report.buckets[index].reason != Reason::kNone;
  });
  if (skipped == reports.end()) return sum;
  const BucketReport& first = skipped->buckets[index];
  sum.reason = first.reason;
  sum.message = first.message;
  // For later, on every rank.
  if (first.reason == Reason::kNotCaptured) return sum;
  sum.message = "rank " + std::to_string(skipped - reports.begin()) + ": " + first.message +
                "; dropped on all ranks";
  sum.executable_bytes = 0;
  const Status dropped =
      core_->prepare({"dropping a bucket"}, [this, size = sum.bucket](int32_t rank) -> Status {
        parts_[static_cast<size_t>(rank)]->drop_bucket(size);
        return {};
      });
  if (!dropped.ok()) sum.message += "; " + dropped.to_string();
  return sum;
}

Status ParallelRunner::check_output(const StepOutput& output) const {
  const RankStep& room = slots_.front().ranks.front();
  ENCORE_RETURN_IF_ERROR(check_room("output.tokens", output.tokens.size(), room.tokens.size()));
  ENCORE_RETURN_IF_ERROR(
      check_room("output.row_status", output.row_status.size(), room.row_status.size()));
  ENCORE_RETURN_IF_ERROR(
      check_room("output.top_tokens", output.top_tokens.size(), room.top_tokens.size()));
  return check_room("output.top_logprobs", output.top_logprobs.size(), room.top_logprobs.size());
}

// The same shape as the caller's output, so that every rank finds the same fault in it; logits and
// log-probabilities, which may be left out, are.
void ParallelRunner::mirror(const StepOutput& output, RankStep& rank) {
  rank.output = {};
  rank.output.tokens = std::span(rank.tokens).first(output.tokens.size());
  rank.output.row_status = std::span(rank.row_status).first(output.row_status.size());
  rank.output.top_logprobs_width = output.top_logprobs_width;
  rank.output.top_tokens = std::span(rank.top_tokens).first(output.top_tokens.size());
  rank.output.top_logprobs = std::span(rank.top_logprobs).first(output.top_logprobs.size());
}

Result<Ticket> ParallelRunner::submit(const ForwardBatch& batch, const StepOutput& output) {
  const auto slot = std::find_if(slots_.begin(), slots_.end(),
                                 [](const Slot& candidate) { return candidate.ticket == 0; });
  if (slot == slots_.end()) {
    return failed_precondition("at most " + std::to_string(slots_.size()) +
                               " steps may be in flight, and none has been waited for");
  }
  ENCORE_RETURN_IF_ERROR(check_output(output));
  slot->step = core_->next_step();
  slot->submitted_at = Clock::now();
  slot->ranks.front().output = output;
  for (size_t rank = 1; rank < slot->ranks.size(); ++rank) mirror(output, slot->ranks[rank]);
  const auto submit_rank = [this, &batch, slot](int32_t rank) -> Status {
    RankStep& own = slot->ranks[static_cast<size_t>(rank)];
    own.done = false;
    ENCORE_RETURN_IF_ERROR(core_->fault().strike(rank, slot->step));
    ENCORE_ASSIGN_OR_RETURN(own.ticket,
                            parts_[static_cast<size_t>(rank)]->submit(batch, own.output));
    return {};
  };
  ENCORE_RETURN_IF_ERROR(core_->step({"submitting", slot->step}, submit_rank));
  slot->ticket = slot->ranks.front().ticket;
  return slot->ticket;
}

Status ParallelRunner::wait(Ticket ticket, int64_t timeout_us) {
  const auto slot = std::find_if(slots_.begin(), slots_.end(), [ticket](const Slot& candidate) {
    return ticket != 0 && candidate.ticket == ticket;
  });
  if (slot == slots_.end()) {
    return invalid_argument("ticket " + std::to_string(ticket) +
                            " is not in flight: each is waited for once");
  }
  const int64_t limit_us = core_->limits().step_us;
  const int64_t wait_us = timeout_us < 0 ? limit_us : std::min(timeout_us, limit_us);
  Status waited = core_->await(
      {"waiting for", slot->step}, wait_us, [this, slot, wait_us](int32_t rank) -> Status {
        RankStep& own = slot->ranks[static_cast<size_t>(rank)];
        if (own.done) return {};
        ENCORE_RETURN_IF_ERROR(parts_[static_cast<size_t>(rank)]->wait(own.ticket, wait_us));
        own.done = true;
        return {};
      });
  if (waited.code() == StatusCode::kDeadlineExceeded) {
    if (Clock::now() - slot->submitted_at < std::chrono::microseconds(limit_us)) return waited;
    return late(*slot, limit_us);
  }
  if (!waited.ok())
    return core_->lose("step " + std::to_string(slot->step) + " failed; " + waited.to_string());
  slot->ticket = 0;
  return compare_tokens(*slot);
}

Status ParallelRunner::late(const Slot& slot, int64_t limit_us) {
  std::string missing;
  for (size_t rank = 0; rank < slot.ranks.size(); ++rank) {
    if (slot.ranks[rank].done) continue;
    missing += (missing.empty() ? "rank " : ", rank ") + std::to_string(rank);
  }
  return core_->lose(missing + " did not finish step " + std::to_string(slot.step) + " within " +
                     std::to_string(limit_us / 1000) + " ms");
}

Status ParallelRunner::compare_tokens(const Slot& slot) {
  const StepOutput& expected = slot.ranks.front().output;
  for (size_t rank = 1; rank < slot.ranks.size(); ++rank) {
    const StepOutput& found = slot.ranks[rank].output;
    for (size_t row = 0; row < found.tokens.size(); ++row) {
      if (found.tokens[row] == expected.tokens[row]) continue;
      return core_->lose("rank " + std::to_string(rank) + " sampled token " +
                         std::to_string(found.tokens[row]) + " in row " + std::to_string(row) +
                         " of step " + std::to_string(slot.step) + ", rank 0 " +
                         std::to_string(expected.tokens[row]));
    }
  }
  return {};
}

Result<CaptureReport> ParallelRunner::capture_bucket(int32_t bucket) {
  std::vector<CaptureReport> reports(parts_.size());
  ENCORE_RETURN_IF_ERROR(core_->prepare({"capturing a bucket"}, [&](int32_t rank) -> Status {
    const auto index = static_cast<size_t>(rank);
    ENCORE_ASSIGN_OR_RETURN(reports[index], parts_[index]->capture_bucket(bucket));
    return {};
  }));
  return merge(reports);
}

}  // namespace encore::lowering
