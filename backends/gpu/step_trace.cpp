#include "step_trace.h"

#include <algorithm>
#include <utility>

#include "encore/sdk/host.h"

namespace encore::gpu {
namespace {

// The nodes of a step's graphs run in the order in which they were captured. If some were not told
// of, none can be matched, and the kernels keep their own names.
std::vector<TraceEvent> named(std::vector<TracedWork> work,
                              const std::vector<const lowering::OpLabel*>& node_labels) {
  const auto num_nodes = static_cast<size_t>(
      std::count_if(work.begin(), work.end(), [](const TracedWork& one) { return one.in_graph; }));
  const bool matched = num_nodes == node_labels.size();
  std::vector<TraceEvent> events;
  size_t node = 0;
  for (TracedWork& one : work) {
    const lowering::OpLabel* label = matched && one.in_graph ? node_labels[node++] : nullptr;
    if (label != nullptr) one.event.name = label->text() + ": " + one.event.name;
    events.push_back(std::move(one.event));
  }
  return events;
}

}  // namespace

Status StepTrace::begin(gpuStream_t stream) {
  if (timer_ != nullptr) return failed_precondition("a step is being traced already");
  ENCORE_ASSIGN_OR_RETURN(auto timer, StreamTimer::create());
  tracing_ = tracer_ == nullptr ? unavailable("this backend has no library that tells of kernels")
                                : tracer_->begin();
  if (tracing_.code() == StatusCode::kFailedPrecondition) return tracing_;
  Status started = timer->start(stream);
  if (!started.ok()) {
    if (tracing_.ok()) static_cast<void>(tracer_->end());
    return started;
  }
  node_labels_.clear();
  timer_ = std::move(timer);
  return {};
}

void StepTrace::launched(const NodeLabels& labels, int32_t num_nodes) {
  if (timer_ == nullptr) return;
  for (int32_t i = 0; i < num_nodes; ++i) {
    node_labels_.push_back(labels.of_node(static_cast<size_t>(i)));
  }
}

Result<std::vector<TraceEvent>> StepTrace::end(gpuStream_t stream) {
  if (timer_ == nullptr) return failed_precondition("no step is being traced");
  const std::unique_ptr<StreamTimer> timer = std::move(timer_);
  const Result<float> whole_us = timer->stop_us(stream);
  if (tracing_.ok()) {
    Result<std::vector<TracedWork>> work = tracer_->end();
    if (work.ok() && !work->empty()) return named(std::move(work).value(), node_labels_);
    tracing_ = work.ok() ? unavailable("no kernel was told of") : work.status();
  }
  ENCORE_RETURN_IF_ERROR(whole_us.status());
  sdk::log(sdk::LogLevel::kWarn, "the trace has the step's whole time only: " + tracing_.message());
  return std::vector<TraceEvent>{{.name = "step", .duration_us = *whole_us}};
}

}  // namespace encore::gpu
