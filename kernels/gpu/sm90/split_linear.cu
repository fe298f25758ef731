// Host side of the split product: checks, tensor maps, launch.
#include <cstring>
#include <type_traits>

#include "kernels/gpu/split_linear.h"
#include "sm90/cluster.cuh"
#include "sm90/device.h"
#include "sm90/split_linear_form.h"
#include "sm90/tma.cuh"

namespace encore::gpu {
namespace {

struct StoredPlan {
  CUtensorMap w_map;
  CUtensorMap x_map;
  SplitParams params;
  SplitForm form;
  int blocks;
};
static_assert(sizeof(StoredPlan) <= sizeof(SplitLinearPlan::storage));
static_assert(std::is_trivially_copyable_v<StoredPlan>);

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

SplitParams params_of(const SplitLinearProblem& problem) {
  SplitParams p{};
  p.y = static_cast<bf16*>(problem.y);
  p.bias = static_cast<const bf16*>(problem.bias);
  p.live = problem.rows.live;
  p.m = problem.rows.maximum;
  p.n = problem.n;
  p.k_steps = problem.k / kTileStepK;
  p.accumulate = problem.accumulate;
  return p;
}

}  // namespace

bool split_linear_serves(const SplitLinearProblem& q) {
  if (q.rows.maximum < 1 || q.rows.maximum > kSplitLinearMaxRows) return false;
  if (q.n < 8 || q.n % 8 != 0) return false;
  if (q.k < kSplitMost * kTileStepK || q.k % kTileStepK != 0) return false;
  if (q.w == nullptr || q.x == nullptr || q.y == nullptr) return false;
  return is_aligned(q.w) && is_aligned(q.x) && is_aligned(q.y) && is_aligned(q.bias);
}

int32_t split_linear_num_variants(const SplitLinearProblem& problem) {
  int num_sms = 0;
  if (!split_linear_serves(problem) || check_sm90(&num_sms) != cudaSuccess) return 0;
  return static_cast<int32_t>(split_forms().size());
}

LaunchError split_linear_plan(const SplitLinearProblem& problem, int32_t variant,
                              SplitLinearPlan* plan) {
  if (!split_linear_serves(problem) || variant < 0 ||
      variant >= static_cast<int32_t>(split_forms().size())) {
    return cudaErrorInvalidValue;
  }
  int num_sms = 0;
  LaunchError error = check_sm90(&num_sms);
  if (error != cudaSuccess) return error;
  StoredPlan stored{};
  const SplitForm& form = split_forms()[static_cast<size_t>(variant)];
  stored.form = form;
  stored.params = params_of(problem);
  stored.blocks = ceil_div(problem.n, form.tile_n) * form.parts;
  error = cudaFuncSetAttribute(form.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               form.smem_bytes);
  if (error == cudaSuccess) {
    error = encode_operand_map(&stored.w_map, problem.w, problem.n, problem.k, form.tile_n);
  }
  if (error == cudaSuccess) {
    error = encode_operand_map(&stored.x_map, problem.x, problem.rows.maximum, problem.k, kTileM);
  }
  if (error != cudaSuccess) return error;
  std::memcpy(plan->storage, &stored, sizeof(stored));
  return cudaSuccess;
}

LaunchError split_linear_run(const SplitLinearPlan& plan, const Launch& launch) {
  StoredPlan stored;
  std::memcpy(&stored, plan.storage, sizeof(stored));
  return launch_clusters(stored.form.kernel, dim3(static_cast<unsigned>(stored.blocks)),
                         dim3(kSplitThreads), stored.form.parts,
                         static_cast<size_t>(stored.form.smem_bytes), launch, stored.w_map,
                         stored.x_map, stored.params);
}

}  // namespace encore::gpu
