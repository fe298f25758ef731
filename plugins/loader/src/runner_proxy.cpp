#include "runner_proxy.h"

#include <string>

#include "abi_call.h"
#include "claims.h"
#include "encore/sdk/abi_struct.h"
#include "plugin_log.h"
#include "to_abi.h"

namespace encore {

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

}  // namespace encore
