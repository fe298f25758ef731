#include "runner_proxy.h"

#include <exception>
#include <string>
#include <utility>

#include "abi_call.h"
#include "claims.h"
#include "encore/sdk/abi_struct.h"
#include "plugin_log.h"
#include "to_abi.h"

namespace encore {
namespace {

struct CollectedTrace {
  std::vector<TraceEvent> events;
  Status status;  // of the first event that made no sense
};

void collect_event(void* context, const encore_trace_event* event) noexcept {
  auto& collected = *static_cast<CollectedTrace*>(context);
  if (!collected.status.ok() || collected.events.size() >= kMaxTraceEvents) return;
  try {
    Result<TraceEvent> read = read_trace_event(sdk::read_sized(event));
    collected.status = read.status();
    if (read.ok()) collected.events.push_back(*std::move(read));
  } catch (const std::exception& exception) {
    collected.status = internal_error(std::string("a trace event was lost: ") + exception.what());
  }
}

}  // namespace

RunnerCheck RunnerProxy::check(const ForwardBatch& batch, const StepOutput& output) const {
  const encore_forward_batch abi_batch = batch_to_abi(batch);
  const encore_step_output abi_output = step_output_to_abi(output);
  auto verdict = sdk::sized<encore_runner_verdict>();
  const Status status =
      abi_call(context_->table.runner_check, handle_, &abi_batch, &abi_output, &verdict);
  if (status.ok()) return read_verdict(verdict);
  plugin_log(sdk::LogLevel::kError, "backend '" + context_->identity.name +
                                        "': runner_check failed: " + status.to_string());
  return {.reason = Reason::kUnsupported, .bucket = 0};
}

Result<Ticket> RunnerProxy::submit(const ForwardBatch& batch, const StepOutput& output) {
  const encore_forward_batch abi_batch = batch_to_abi(batch);
  const encore_step_output abi_output = step_output_to_abi(output);
  uint64_t ticket = 0;
  ENCORE_RETURN_IF_ERROR(
      abi_call(context_->table.runner_submit, handle_, &abi_batch, &abi_output, &ticket));
  return Ticket{ticket};
}

Status RunnerProxy::wait(Ticket ticket, int64_t timeout_us) {
  return abi_call(context_->table.runner_wait, handle_, ticket, timeout_us);
}

Result<CaptureReport> RunnerProxy::capture_bucket(int32_t bucket) {
  if (context_->lazy.capture_bucket == nullptr) {
    return unimplemented("backend '" + context_->identity.name + "' does not offer " +
                         ENCORE_EXTENSION_LAZY_CAPTURE);
  }
  const encore_capture_report* report = nullptr;
  ENCORE_RETURN_IF_ERROR(abi_call(context_->lazy.capture_bucket, handle_, bucket, &report));
  return read_capture_report(report);
}

Result<std::vector<TraceEvent>> RunnerProxy::trace(const ForwardBatch& batch,
                                                   const StepOutput& output) {
  if (context_->trace.trace == nullptr) {
    return unimplemented("backend '" + context_->identity.name + "' does not offer " +
                         ENCORE_EXTENSION_STEP_TRACE);
  }
  const encore_forward_batch abi_batch = batch_to_abi(batch);
  const encore_step_output abi_output = step_output_to_abi(output);
  CollectedTrace collected;
  ENCORE_RETURN_IF_ERROR(abi_call(context_->trace.trace, handle_, &abi_batch, &abi_output,
                                  collect_event, static_cast<void*>(&collected)));
  ENCORE_RETURN_IF_ERROR(collected.status);
  return std::move(collected.events);
}

}  // namespace encore
