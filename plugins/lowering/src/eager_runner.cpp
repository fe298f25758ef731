#include <utility>

#include "encore/lowering/runners.h"

namespace encore::lowering {

EagerRunner::EagerRunner(std::shared_ptr<StepContext> step_context, const LayerStack& layer_stack,
                         std::shared_ptr<const LayerObserver> observer)
    : StepRunner(std::move(step_context), layer_stack), observer_(std::move(observer)) {
  const RunnerLimits& limits = context().options().limits;
  step_ = context().step_of(limits.max_tokens, limits.max_requests);
}

RunnerCheck EagerRunner::check_bucket(const ForwardBatch&) const { return {}; }

StepRunner::PaddedSize EagerRunner::padded_size(const ForwardBatch& batch, int32_t) const {
  return {batch.num_tokens(), batch.num_requests()};
}

Result<Matrix> EagerRunner::execute(const ForwardBatch& batch, int32_t) {
  Device& device = context().device();
  Ops& ops = device.ops();
  const Step step = narrowed(step_, batch.num_tokens(), batch.num_logit_rows());
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
  if (device.activation_dtype() != DType::kF32) {
    return unimplemented("layer observers need f32 activations; this device uses " +
                         std::string(dtype_name(device.activation_dtype())));
  }
  host.resize(static_cast<size_t>(live_tokens) * static_cast<size_t>(hidden.columns));
  ENCORE_RETURN_IF_ERROR(device.copy_out(reinterpret_cast<std::byte*>(host.data()),
                                         static_cast<const std::byte*>(hidden.data),
                                         static_cast<int64_t>(host.size() * sizeof(float))));
  ENCORE_ASSIGN_OR_RETURN(const uint64_t mark, device.mark());
  ENCORE_RETURN_IF_ERROR(device.wait(mark, -1));
  observer({layer, live_tokens, hidden.columns, host.data()});
  return {};
}

}  // namespace encore::lowering
