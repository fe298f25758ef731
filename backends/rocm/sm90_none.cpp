// NVIDIA's own kernels, which this backend is built without: they serve no product.
#include "kernels/gpu/decode_linear.h"
#include "kernels/gpu/gated_linear.h"
#include "kernels/gpu/split_linear.h"
#include "vendor.h"

namespace encore::gpu {

int32_t decode_linear_num_variants(const DecodeLinearProblem&) { return 0; }
int32_t decode_linear_bits(const DecodeLinearProblem&, int32_t) { return -1; }
bool decode_linear_serves(const DecodeLinearProblem&) { return false; }
LaunchError decode_linear_plan(const DecodeLinearProblem&, int32_t, DecodeLinearPlan*) {
  return hipErrorNotSupported;
}
LaunchError decode_linear_run(const DecodeLinearPlan&, const Launch&) {
  return hipErrorNotSupported;
}

bool gated_linear_serves(const GatedLinearProblem&) { return false; }
int32_t gated_linear_num_variants(const GatedLinearProblem&) { return 0; }
LaunchError gated_linear_plan(const GatedLinearProblem&, int32_t, GatedLinearPlan*) {
  return hipErrorNotSupported;
}
LaunchError gated_linear_run(const GatedLinearPlan&, const Launch&) { return hipErrorNotSupported; }

bool split_linear_serves(const SplitLinearProblem&) { return false; }
int32_t split_linear_num_variants(const SplitLinearProblem&) { return 0; }
LaunchError split_linear_plan(const SplitLinearProblem&, int32_t, SplitLinearPlan*) {
  return hipErrorNotSupported;
}
LaunchError split_linear_run(const SplitLinearPlan&, const Launch&) { return hipErrorNotSupported; }

}  // namespace encore::gpu
