#include "encore/lowering/step_runner.h"

#include <mutex>
#include <string>
#include <string_view>

#include "named_range.h"

namespace encore::lowering {
namespace {

constexpr int64_t kFailedStepTimeoutUs = 1000000;

std::string_view range_name(RunnerKind kind) {
  switch (kind) {
    case RunnerKind::kDecodeGraph:
      return "decode";
    case RunnerKind::kPrefillGraph:
      return "prefill";
    case RunnerKind::kEager:
      break;
  }
  return "eager";
}

}  // namespace

bool is_decode(const ForwardBatch& batch) {
  // With one token each there are as many tokens as requests; an empty request would hide a longer
  // one.
  if (batch.num_tokens() != batch.num_requests()) return false;
  for (size_t i = 0; i + 1 < batch.q_start.size(); ++i) {
    if (batch.q_start[i + 1] - batch.q_start[i] != 1) return false;
  }
  return true;
}

RunnerCheck StepRunner::check(const ForwardBatch& batch, const StepOutput& output) const {
  const Reason reason = context_->staging().fits(batch, output);
  if (reason != Reason::kNone) return {reason, 0};
  return check_bucket(batch);
}

Result<Ticket> StepRunner::submit(const ForwardBatch& batch, const StepOutput& output) {
  const RunnerCheck checked = check(batch, output);
  if (!checked.ok()) {
    return failed_precondition(
        "the " + std::string(runner_kind_name(kind())) +
        " runner cannot run this batch: " + std::string(reason_name(checked.reason)));
  }
  Device& device = context_->device();
  const std::lock_guard lock(device.turn());
  const NamedRange range(device, range_name(kind()), checked.bucket);
  const PaddedSize padded = padded_size(batch, checked.bucket);
  ENCORE_RETURN_IF_ERROR(context_->stage(batch, output, padded.tokens, padded.requests));
  const Result<Matrix> logits = execute(batch, checked.bucket);
  Result<Ticket> ticket =
      logits.ok() ? context_->finish(batch, output, *logits) : Result<Ticket>(logits.status());
  if (ticket.ok()) return ticket;
  // What was enqueued reads the staged inputs, which the next step overwrites, and writes to the
  // caller's memory, which is the caller's again.
  if (const auto mark = device.mark(); mark.ok()) {
    static_cast<void>(device.wait(*mark, kFailedStepTimeoutUs));
  }
  return ticket.status();
}

Result<std::vector<TraceEvent>> StepRunner::trace(const ForwardBatch& batch,
                                                  const StepOutput& output) {
  Device& device = context_->device();
  ENCORE_RETURN_IF_ERROR(device.begin_trace());
  const Result<Ticket> ticket = submit(batch, output);
  const Status status = ticket.ok() ? wait(*ticket, -1) : ticket.status();
  Result<std::vector<TraceEvent>> events = device.end_trace();
  ENCORE_RETURN_IF_ERROR(status);
  return events;
}

}  // namespace encore::lowering
