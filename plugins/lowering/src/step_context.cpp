#include "encore/lowering/step_context.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace encore::lowering {
namespace {

constexpr uint8_t kPoisonByte = 0xCD;  // a huge negative float, an impossible id

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

template <typename T>
void copy_rows(const std::byte* source, std::span<T> destination) {
  if (!destination.empty()) std::memcpy(destination.data(), source, destination.size_bytes());
}

}  // namespace

StepContext::StepContext(Device& device, const LayerStack& stack, const KvInfo& kv_info, void* kv,
                         const Options& options)
    : device_(device),
      stack_(stack),
      kv_(kv),
      options_(options),
      staging_(stack.spec(), options.limits, kv_info),
      layout_(layout_of(options.limits)) {}

StepContext::ResultLayout StepContext::layout_of(const RunnerLimits& limits) {
  const int64_t rows = limits.max_requests;
  const int64_t top = rows * limits.max_logprobs;
  ResultLayout layout{};
  layout.tokens = 0;
  layout.row_status = layout.tokens + aligned(rows * 4);
  layout.logprobs = layout.row_status + aligned(rows * 4);
  layout.top_tokens = layout.logprobs + aligned(rows * 4);
  layout.top_logprobs = layout.top_tokens + aligned(top * 4);
  layout.host_bytes = layout.top_logprobs + aligned(top * 4);
  layout.input_tokens = layout.host_bytes;
  layout.device_bytes = layout.input_tokens + aligned(int64_t{limits.max_tokens} * 4);
  return layout;
}

Result<std::unique_ptr<StepContext>> StepContext::create(Device& device, GuardList& guards,
                                                         const LayerStack& stack,
                                                         const KvInfo& kv_info, void* kv,
                                                         const Options& options,
                                                         CaptureReport* report) {
  const RunnerLimits& limits = options.limits;
  std::unique_ptr<StepContext> context(new StepContext(device, stack, kv_info, kv, options));
  const auto allocate = [&](const char* name, int64_t bytes) {
    return GuardedMemory::create(device, guards, name, bytes, options.guards);
  };
  ENCORE_ASSIGN_OR_RETURN(context->inputs_, allocate("step inputs", context->staging_.bytes()));
  ENCORE_ASSIGN_OR_RETURN(context->results_,
                          allocate("step results", context->layout_.device_bytes));
  const ActivationPlan plan(stack.spec(), stack.shard(), device.activation_dtype(),
                            limits.max_tokens, limits.max_requests);
  ENCORE_ASSIGN_OR_RETURN(context->arena_, allocate("arena", plan.bytes()));
  int64_t added_bytes = 0;
  ENCORE_ASSIGN_OR_RETURN(
      context->workspace_bytes_,
      device.grow_workspace(stack.spec(), workspace_of(limits, stack), &added_bytes));
  const int64_t input_bytes = context->staging_.bytes();
  const int64_t result_bytes = context->layout_.host_bytes;
  for (Slot& slot : context->slots_) {
    ENCORE_ASSIGN_OR_RETURN(slot.inputs, device.allocate_host(input_bytes, "staged inputs"));
    ENCORE_ASSIGN_OR_RETURN(slot.results, device.allocate_host(result_bytes, "staged results"));
  }
  report->arena_bytes += context->arena_->device_bytes();
  const int64_t host_bytes =
      (input_bytes + result_bytes) * static_cast<int64_t>(kMaxTicketsInFlight);
  report->host_bytes += host_bytes;
  report->static_bytes +=
      context->inputs_->device_bytes() + context->results_->device_bytes() + host_bytes;
  report->workspace_bytes += added_bytes;
  return context;
}

int64_t StepContext::planned_bytes(const Device& device, const LayerStack& stack,
                                   const KvInfo& kv_info, const Options& options) {
  const RunnerLimits& limits = options.limits;
  const StepStaging staging(stack.spec(), limits, kv_info);
  const ActivationPlan arena(stack.spec(), stack.shard(), device.activation_dtype(),
                             limits.max_tokens, limits.max_requests);
  constexpr int64_t kBuffers = 3;  // inputs, results, arena
  const int64_t guards = options.guards ? kBuffers * 2 * GuardedMemory::kGuardBytes : 0;
  return staging.bytes() + layout_of(limits).device_bytes + arena.bytes() + guards;
}

StepResults StepContext::results_at(std::byte* base) const {
  const auto ints = [&](int64_t offset) { return reinterpret_cast<int32_t*>(base + offset); };
  const auto floats = [&](int64_t offset) { return reinterpret_cast<float*>(base + offset); };
  StepResults results;
  results.tokens = ints(layout_.tokens);
  results.row_status = ints(layout_.row_status);
  results.logprobs = floats(layout_.logprobs);
  results.top_tokens = ints(layout_.top_tokens);
  results.top_logprobs = floats(layout_.top_logprobs);
  results.input_tokens = ints(layout_.input_tokens);
  results.max_logprobs = options_.limits.max_logprobs;
  return results;
}

Step StepContext::step_of(int32_t tokens, int32_t requests, bool decode_only,
                          int64_t* arena_bytes) const {
  const ActivationPlan plan(stack_.spec(), stack_.shard(), device_.activation_dtype(), tokens,
                            requests);
  if (arena_bytes != nullptr) *arena_bytes = plan.bytes();
  return {inputs_of(tokens, requests, decode_only), results_at(results_->data()),
          plan.at(arena_->data()), kv_};
}

// Everything that a correct step rewrites before it reads: arena, workspace, static inputs.
Status StepContext::poison(std::byte* host) {
  staging_.poison(host);
  ENCORE_RETURN_IF_ERROR(device_.copy_in(inputs_->data(), host, staging_.bytes()));
  ENCORE_RETURN_IF_ERROR(device_.fill(arena_->data(), kPoisonByte, arena_->bytes()));
  return device_.fill_workspace(kPoisonByte);
}

Status StepContext::warm_up() {
  constexpr int32_t kTokens = 128;  // enough to reach the kernels that serve many rows
  if (warm_) return {};
  const RunnerLimits& limits = options_.limits;
  const int32_t few = std::min({limits.max_tokens, limits.max_requests, 1});
  const Step prefill = step_of(std::min(limits.max_tokens, kTokens), limits.max_requests, false);
  const Step decode = step_of(few, few, true);
  // All counts are zero: no op has a live row.
  ENCORE_RETURN_IF_ERROR(device_.fill(inputs_->data(), 0, inputs_->bytes()));
  ENCORE_RETURN_IF_ERROR(stack_.forward(device_.ops(), prefill));
  ENCORE_RETURN_IF_ERROR(stack_.forward(device_.ops(), decode));
  ENCORE_ASSIGN_OR_RETURN(const uint64_t mark, device_.mark());
  ENCORE_RETURN_IF_ERROR(device_.wait(mark, -1));
  warm_ = true;
  return {};
}

Status StepContext::stage(const ForwardBatch& batch, const StepOutput& output,
                          int32_t padded_tokens, int32_t padded_requests) {
  ENCORE_RETURN_IF_ERROR(staging_.validate(batch, output));
  const Slot& slot = slots_[next_ticket_ % kMaxTicketsInFlight];
  if (slot.ticket != 0) {
    return failed_precondition("step " + std::to_string(slot.ticket) +
                               " has not been waited for; at most " +
                               std::to_string(kMaxTicketsInFlight) + " steps may be in flight");
  }
  std::byte* host = slot.inputs->data();
  if (options_.poison) {
    ENCORE_RETURN_IF_ERROR(poison(host));
    // The copy just enqueued reads what pack() is about to write.
    ENCORE_ASSIGN_OR_RETURN(const uint64_t mark, device_.mark());
    ENCORE_RETURN_IF_ERROR(device_.wait(mark, -1));
  }
  const int64_t used = staging_.pack(batch, padded_tokens, padded_requests, host);
  return device_.copy_in(inputs_->data(), host, used);
}

Result<Ticket> StepContext::finish(const ForwardBatch& batch, const StepOutput& output,
                                   const Matrix& logits) {
  Slot& slot = slots_[next_ticket_ % kMaxTicketsInFlight];
  if (batch.num_logit_rows() > 0) {
    const bool wants_logprobs = !output.logprobs.empty() || output.top_logprobs_width > 0;
    const int64_t bytes = wants_logprobs ? layout_.host_bytes : layout_.logprobs;
    ENCORE_RETURN_IF_ERROR(device_.copy_out(slot.results->data(), results_->data(), bytes));
  }
  if (!output.logits.empty()) ENCORE_RETURN_IF_ERROR(copy_logits(batch, output, logits));
  ENCORE_ASSIGN_OR_RETURN(slot.mark, device_.mark());
  slot.output = output;
  slot.rows = batch.num_logit_rows();
  slot.ticket = next_ticket_++;
  return slot.ticket;
}

// Rows lie as close as the caller's unless the ranks' parts are padded.
Status StepContext::copy_logits(const ForwardBatch& batch, const StepOutput& output,
                                const Matrix& logits) {
  auto* to = reinterpret_cast<std::byte*>(output.logits.data());
  const auto* from = static_cast<const std::byte*>(logits.data);
  const int64_t row_bytes = stack_.spec().vocab_size * static_cast<int64_t>(sizeof(float));
  const int64_t from_row_bytes = logits.columns * static_cast<int64_t>(sizeof(float));
  const bool close = from_row_bytes == row_bytes;
  const int64_t rows = batch.num_logit_rows();
  const int64_t bytes = close ? rows * row_bytes : row_bytes;
  for (int64_t row = 0; row < (close ? 1 : rows); ++row) {
    ENCORE_RETURN_IF_ERROR(
        device_.copy_out(to + row * row_bytes, from + row * from_row_bytes, bytes));
  }
  return {};
}

Status StepContext::wait(Ticket ticket, int64_t timeout_us) {
  Slot& slot = slots_[ticket % kMaxTicketsInFlight];
  if (ticket == 0 || slot.ticket != ticket) {
    return invalid_argument("ticket " + std::to_string(ticket) +
                            " is not in flight: each is waited for once");
  }
  ENCORE_RETURN_IF_ERROR(device_.wait(slot.mark, timeout_us));
  deliver(slot);
  slot.ticket = 0;
  return {};
}

void StepContext::deliver(const Slot& slot) const {
  const std::byte* host = slot.results->data();
  const StepOutput& output = slot.output;
  copy_rows(host + layout_.tokens, output.tokens);
  copy_rows(host + layout_.row_status, output.row_status);
  if (!output.logprobs.empty()) copy_rows(host + layout_.logprobs, output.logprobs);
  // The device's rows are max_logprobs wide, the caller's top_logprobs_width.
  const auto width = static_cast<size_t>(output.top_logprobs_width);
  const auto stride = static_cast<size_t>(options_.limits.max_logprobs) * 4;
  for (size_t row = 0; width > 0 && row < static_cast<size_t>(slot.rows); ++row) {
    copy_rows(host + layout_.top_tokens + static_cast<int64_t>(row * stride),
              output.top_tokens.subspan(row * width, width));
    copy_rows(host + layout_.top_logprobs + static_cast<int64_t>(row * stride),
              output.top_logprobs.subspan(row * width, width));
  }
}

}  // namespace encore::lowering
