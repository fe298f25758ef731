#include "defective_runner.h"

#include <algorithm>

namespace encore::defects {

void spoil(const StepOutput& output) {
  for (int32_t& token : output.tokens) token = token == 0 ? 1 : token - 1;
  for (float& logprob : output.logprobs) logprob -= 1.0F;
  // Reversed rows are as far from right as logits of the right size can be.
  std::reverse(output.logits.begin(), output.logits.end());
}

Result<Ticket> SpoilingRunner::submit(const ForwardBatch& batch, const StepOutput& output) {
  const RunnerCheck checked = sound().check(batch, output);
  ENCORE_ASSIGN_OR_RETURN(const Ticket ticket, sound().submit(batch, output));
  in_flight_[ticket] = {output, spoils(batch, checked.bucket)};
  return ticket;
}

Status SpoilingRunner::wait(Ticket ticket, int64_t timeout_us) {
  ENCORE_RETURN_IF_ERROR(sound().wait(ticket, timeout_us));
  const bool late = wait_spoils();
  const auto found = in_flight_.find(ticket);
  if (found == in_flight_.end()) return {};
  if (found->second.second || late) spoil(found->second.first);
  in_flight_.erase(found);
  return {};
}

}  // namespace encore::defects
