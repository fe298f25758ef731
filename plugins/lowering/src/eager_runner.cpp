#include <algorithm>
#include <cstring>
#include <utility>

#include "encore/lowering/runners.h"

namespace encore::lowering {

EagerRunner::EagerRunner(std::shared_ptr<StepContext> step_context, const LayerStack& layer_stack,
                         std::shared_ptr<const LayerObserver> observer)
    : StepRunner(std::move(step_context), layer_stack), observer_(std::move(observer)) {
  const RunnerLimits& limits = context().options().limits;
  step_ = context().step_of(limits.max_tokens, limits.max_requests, false);
}

RunnerCheck EagerRunner::check_bucket(const ForwardBatch&) const { return {}; }

StepRunner::PaddedSize EagerRunner::padded_size(const ForwardBatch& batch, int32_t) const {
  return {batch.num_tokens(), std::max(batch.num_requests(), batch.num_logit_rows())};
}

Result<Matrix> EagerRunner::execute(const ForwardBatch& batch, int32_t) {
  Device& device = context().device();
  Ops& ops = device.ops();
  Step step = narrowed(step_, batch.num_tokens(), batch.num_logit_rows());
  const PaddedSize size = padded_size(batch, 0);
  step.inputs = context().inputs_of(size.tokens, size.requests, is_decode(batch));
  ENCORE_RETURN_IF_ERROR(stack().embed(ops, step));
  const auto num_layers = static_cast<int32_t>(stack().spec().num_layers);
  for (int32_t layer = 0; layer < num_layers; ++layer) {
    ENCORE_RETURN_IF_ERROR(stack().layer(ops, step, layer));
    if (*observer_) {
      ENCORE_RETURN_IF_ERROR(call_observer(device, *observer_, step.activations.hidden, layer,
                                           batch.num_tokens(), observed_));
    }
  }
  if (batch.num_logit_rows() > 0) ENCORE_RETURN_IF_ERROR(stack().head(ops, step));
  return step.activations.logits;
}

Status call_observer(Device& device, const LayerObserver& observer, const Matrix& hidden,
                     int32_t layer, int32_t live_tokens, std::vector<float>& host) {
  const bool is_bf16 = device.activation_dtype() == DType::kBF16;
  if (!is_bf16 && device.activation_dtype() != DType::kF32) {
    return unimplemented("layer observers need f32 or bf16 activations; this device uses " +
                         std::string(dtype_name(device.activation_dtype())));
  }
  const size_t count = static_cast<size_t>(live_tokens) * static_cast<size_t>(hidden.columns);
  host.resize(count);
  // bf16 values land in the upper half of the buffer and are widened from the front.
  auto* target = reinterpret_cast<std::byte*>(host.data()) + (is_bf16 ? count * 2 : 0);
  ENCORE_RETURN_IF_ERROR(device.copy_out(target, static_cast<const std::byte*>(hidden.data),
                                         static_cast<int64_t>(count * (is_bf16 ? 2 : 4))));
  ENCORE_ASSIGN_OR_RETURN(const uint64_t mark, device.mark());
  ENCORE_RETURN_IF_ERROR(device.wait(mark, -1));
  for (size_t i = 0; is_bf16 && i < count; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, target + 2 * i, sizeof(bits));
    const uint32_t wide = uint32_t{bits} << 16U;
    std::memcpy(&host[i], &wide, sizeof(wide));
  }
  observer({layer, live_tokens, hidden.columns, host.data()});
  return {};
}

}  // namespace encore::lowering
