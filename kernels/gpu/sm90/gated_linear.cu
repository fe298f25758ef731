// Host side of the gated product: checks, tensor maps, launch.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/gpu/gated_linear.h"
#include "sm90/cluster.cuh"
#include "sm90/device.h"
#include "sm90/gated_linear_form.h"
#include "sm90/tma.cuh"

namespace encore::gpu {
namespace {

constexpr int kWalkRows = 2048;  // of x, together in the L2 cache

struct StoredPlan {
  CUtensorMap w_map;
  CUtensorMap x_map;
  GatedParams params;
  GatedForm form;
};
static_assert(sizeof(StoredPlan) <= sizeof(GatedLinearPlan::storage));
static_assert(std::is_trivially_copyable_v<StoredPlan>);

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

GatedParams params_of(const GatedLinearProblem& problem, const GatedForm& form, int num_sms) {
  GatedParams p{};
  p.y = static_cast<bf16*>(problem.y);
  p.bias = static_cast<const bf16*>(problem.bias);
  p.live = problem.rows.live;
  p.m = problem.rows.maximum;
  p.out_n = problem.n / 2;
  p.k_steps = problem.k / kTileStepK;
  p.row_blocks = form.row_blocks;
  p.num_columns = ceil_div(p.out_n, form.tile_n / 2);
  p.num_clusters =
      std::min(ceil_div(p.m, kTileM * form.row_blocks) * p.num_columns, num_sms / form.row_blocks);
  p.group = kWalkRows / (kTileM * form.row_blocks);
  return p;
}

}  // namespace

bool gated_linear_serves(const GatedLinearProblem& q) {
  if (q.rows.maximum < 1 || q.n < 16 || q.n % 16 != 0) return false;
  if (q.k < kGatedMinK || q.k % kTileStepK != 0) return false;
  if (q.w == nullptr || q.x == nullptr || q.y == nullptr) return false;
  return is_aligned(q.w) && is_aligned(q.x) && is_aligned(q.y) && is_aligned(q.bias);
}

int32_t gated_linear_num_variants(const GatedLinearProblem& problem) {
  int num_sms = 0;
  if (!gated_linear_serves(problem) || check_sm90(&num_sms) != cudaSuccess) return 0;
  return static_cast<int32_t>(gated_forms().size());
}

LaunchError gated_linear_plan(const GatedLinearProblem& problem, int32_t variant,
                              GatedLinearPlan* plan) {
  if (!gated_linear_serves(problem) || variant < 0 ||
      variant >= static_cast<int32_t>(gated_forms().size())) {
    return cudaErrorInvalidValue;
  }
  int num_sms = 0;
  LaunchError error = check_sm90(&num_sms);
  if (error != cudaSuccess) return error;
  StoredPlan stored{};
  stored.form = gated_forms()[static_cast<size_t>(variant)];
  stored.params = params_of(problem, stored.form, num_sms);
  error = cudaFuncSetAttribute(stored.form.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               stored.form.smem_bytes);
  if (error == cudaSuccess) {
    error =
        encode_operand_map(&stored.w_map, problem.w, problem.n, problem.k, stored.form.tile_n / 2);
  }
  if (error == cudaSuccess) {
    error = encode_operand_map(&stored.x_map, problem.x, problem.rows.maximum, problem.k, kTileM);
  }
  if (error != cudaSuccess) return error;
  std::memcpy(plan->storage, &stored, sizeof(stored));
  return cudaSuccess;
}

LaunchError gated_linear_run(const GatedLinearPlan& plan, const Launch& launch) {
  StoredPlan stored;
  std::memcpy(&stored, plan.storage, sizeof(stored));
  const GatedParams& p = stored.params;
  return launch_clusters(
      stored.form.kernel, dim3(static_cast<unsigned>(p.num_clusters * p.row_blocks)),
      dim3(kGatedThreads), p.row_blocks, static_cast<size_t>(stored.form.smem_bytes), launch,
      stored.w_map, stored.x_map, p);
}

}  // namespace encore::gpu
