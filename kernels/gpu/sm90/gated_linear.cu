// Host side of the gated product: checks, tensor maps, launch.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/gpu/gated_linear.h"
#include "sm90/cluster.cuh"
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
bool aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

// A row-major bf16 [rows, k], read in boxes of box_rows by one k step.
LaunchError encode_map(CUtensorMap* map, const void* data, int rows, int k, int box_rows) {
  TileMapShape shape;
  shape.rank = 2;
  shape.size[0] = static_cast<uint64_t>(k);
  shape.size[1] = static_cast<uint64_t>(rows);
  shape.stride_bytes[1] = static_cast<uint64_t>(k) * sizeof(bf16);
  shape.box[0] = kGatedStepK;
  shape.box[1] = static_cast<uint32_t>(box_rows);
  return encode_tile_map(map, Element::kBF16, data, shape);
}

// Of the current device: whether it is of compute capability 9.0, and its multiprocessors.
LaunchError check_device(int* num_sms) {
  int device = 0;
  int major = 0;
  int minor = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  }
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  }
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(num_sms, cudaDevAttrMultiProcessorCount, device);
  }
  if (error != cudaSuccess) return error;
  return major == 9 && minor == 0 ? cudaSuccess : cudaErrorNotSupported;
}

GatedParams params_of(const GatedLinearProblem& problem, const GatedForm& form, int num_sms) {
  GatedParams p{};
  p.y = static_cast<bf16*>(problem.y);
  p.bias = static_cast<const bf16*>(problem.bias);
  p.live = problem.rows.live;
  p.m = problem.rows.maximum;
  p.out_n = problem.n / 2;
  p.k_steps = problem.k / kGatedStepK;
  p.row_blocks = form.row_blocks;
  p.num_columns = ceil_div(p.out_n, form.tile_n / 2);
  p.num_clusters = std::min(ceil_div(p.m, kGatedTileM * form.row_blocks) * p.num_columns,
                            num_sms / form.row_blocks);
  p.group = kWalkRows / (kGatedTileM * form.row_blocks);
  return p;
}

}  // namespace

bool gated_linear_serves(const GatedLinearProblem& q) {
  if (q.rows.maximum < 1 || q.n < 16 || q.n % 16 != 0) return false;
  if (q.k < kGatedMinK || q.k % kGatedStepK != 0) return false;
  if (q.w == nullptr || q.x == nullptr || q.y == nullptr) return false;
  return aligned(q.w) && aligned(q.x) && aligned(q.y) && aligned(q.bias);
}

int32_t gated_linear_num_variants(const GatedLinearProblem& problem) {
  int num_sms = 0;
  if (!gated_linear_serves(problem) || check_device(&num_sms) != cudaSuccess) return 0;
  return static_cast<int32_t>(gated_forms().size());
}

LaunchError gated_linear_plan(const GatedLinearProblem& problem, int32_t variant,
                              GatedLinearPlan* plan) {
  if (!gated_linear_serves(problem) || variant < 0 ||
      variant >= static_cast<int32_t>(gated_forms().size())) {
    return cudaErrorInvalidValue;
  }
  int num_sms = 0;
  LaunchError error = check_device(&num_sms);
  if (error != cudaSuccess) return error;
  StoredPlan stored{};
  stored.form = gated_forms()[static_cast<size_t>(variant)];
  stored.params = params_of(problem, stored.form, num_sms);
  error = cudaFuncSetAttribute(stored.form.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               stored.form.smem_bytes);
  if (error == cudaSuccess) {
    error = encode_map(&stored.w_map, problem.w, problem.n, problem.k, stored.form.tile_n / 2);
  }
  if (error == cudaSuccess) {
    error = encode_map(&stored.x_map, problem.x, problem.rows.maximum, problem.k, kGatedTileM);
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
