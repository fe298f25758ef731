// A plugin's runner as the host sees it. Crossing costs two structs on the stack; nothing is
// allocated or copied unless there is an error.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "encore/runner.h"
#include "plugin_context.h"

namespace encore {

class RunnerProxy : public Runner {
 public:
  RunnerProxy(std::shared_ptr<const PluginContext> context, encore_runner* handle, RunnerKind kind)
      : context_(std::move(context)), handle_(handle), kind_(kind) {}
  ~RunnerProxy() override { context_->table.runner_free(handle_); }
  RunnerProxy(const RunnerProxy&) = delete;
  RunnerProxy& operator=(const RunnerProxy&) = delete;

  RunnerKind kind() const override { return kind_; }
  // A plugin that fails here is logged and answers kUnsupported.
  RunnerCheck check(const ForwardBatch& batch, const StepOutput& output) const override;
  Result<Ticket> submit(const ForwardBatch& batch, const StepOutput& output) override;
  Status wait(Ticket ticket, int64_t timeout_us) override;
  Result<CaptureReport> capture_bucket(int32_t bucket) override;
  Result<std::vector<TraceEvent>> trace(const ForwardBatch& batch,
                                        const StepOutput& output) override;

 private:
  std::shared_ptr<const PluginContext> context_;
  encore_runner* handle_;
  RunnerKind kind_;
};

}  // namespace encore
