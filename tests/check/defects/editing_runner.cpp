#include "editing_runner.h"

#include <algorithm>

namespace encore::defects {
namespace {

template <typename T>
std::vector<T> copy_of(std::span<const T> values) {
  return {values.begin(), values.end()};
}

}  // namespace

EditedBatch::EditedBatch(const ForwardBatch& original)
    : batch(original),
      token_ids(copy_of(original.token_ids)),
      q_start(copy_of(original.q_start)),
      kv_len(copy_of(original.kv_len)),
      logit_rows(copy_of(original.logit_rows)),
      sampling(copy_of(original.sampling)),
      biases(copy_of(original.biases)),
      history(copy_of(original.history)),
      num_valid_tokens(original.num_valid_tokens) {}

ForwardBatch EditedBatch::view() const {
  ForwardBatch edited = batch;
  edited.token_ids = token_ids;
  edited.sampling = sampling;
  edited.biases = biases;
  edited.history = history;
  edited.num_valid_tokens = num_valid_tokens;
  if (biases.empty()) edited.bias_start = {};
  return edited;
}

Result<Ticket> EditingRunner::submit(const ForwardBatch& batch, const StepOutput& output) {
  EditedBatch edited(batch);
  edit(edited);
  ENCORE_ASSIGN_OR_RETURN(const Ticket ticket, sound().submit(edited.view(), output));
  in_flight_.insert_or_assign(ticket, Step{EditedBatch(batch), output});
  return ticket;
}

Status EditingRunner::wait(Ticket ticket, int64_t timeout_us) {
  ENCORE_RETURN_IF_ERROR(sound().wait(ticket, timeout_us));
  const auto found = in_flight_.find(ticket);
  if (found == in_flight_.end()) return {};
  finish(found->second.original, found->second.output);
  in_flight_.erase(found);
  return {};
}

std::span<float> logits_of(const StepOutput& output, size_t row) {
  if (output.logits.empty()) return {};
  const size_t width = output.logits.size() / output.tokens.size();
  return output.logits.subspan(row * width, width);
}

void swap_rows(const StepOutput& output, size_t first, size_t second) {
  std::swap(output.tokens[first], output.tokens[second]);
  std::swap(output.row_status[first], output.row_status[second]);
  if (!output.logprobs.empty()) std::swap(output.logprobs[first], output.logprobs[second]);
  const std::span<float> logits = logits_of(output, first);
  std::swap_ranges(logits.begin(), logits.end(), logits_of(output, second).begin());
}

}  // namespace encore::defects
