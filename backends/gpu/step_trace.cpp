#include "step_trace.h"

#include <utility>

#include "encore/sdk/host.h"

namespace encore::gpu {

Status StepTrace::begin(gpuStream_t stream) {
  if (timer_ != nullptr) return failed_precondition("a step is being traced already");
  ENCORE_ASSIGN_OR_RETURN(auto timer, StreamTimer::create());
  tracing_ = tracer_ == nullptr ? unavailable("this backend has no library that tells of kernels")
                                : tracer_->begin();
  if (tracing_.code() == StatusCode::kFailedPrecondition) return tracing_;
  const Status started = timer->start(stream);
  if (!started.ok()) {
    if (tracing_.ok()) static_cast<void>(tracer_->end());
    return started;
  }
  timer_ = std::move(timer);
  return {};
}

Result<std::vector<TraceEvent>> StepTrace::end(gpuStream_t stream) {
  if (timer_ == nullptr) return failed_precondition("no step is being traced");
  const std::unique_ptr<StreamTimer> timer = std::move(timer_);
  const Result<float> whole_us = timer->stop_us(stream);
  if (tracing_.ok()) {
    Result<std::vector<TraceEvent>> events = tracer_->end();
    if (events.ok() && !events->empty()) return events;
    tracing_ = events.ok() ? unavailable("no kernel was told of") : events.status();
  }
  ENCORE_RETURN_IF_ERROR(whole_us.status());
  sdk::log(sdk::LogLevel::kWarn, "the trace has the step's whole time only: " + tracing_.message());
  return std::vector<TraceEvent>{{.name = "step", .duration_us = *whole_us}};
}

}  // namespace encore::gpu
