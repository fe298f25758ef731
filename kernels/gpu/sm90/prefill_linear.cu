// Host side of the prefill product: checks, tensor maps, launch.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/gpu/prefill_linear.h"
#include "sm90/cluster.cuh"
#include "sm90/prefill_linear_tuning.h"

namespace encore::gpu {
namespace {

constexpr int kWalkRows = 2048;  // of x, together in the L2 cache

struct StoredPlan {
  CUtensorMap w_map;
  CUtensorMap x_map;
  PrefillParams params;
  PrefillKernel kernel;
  int cluster, threads, smem_bytes;
};
static_assert(sizeof(StoredPlan) <= sizeof(PrefillLinearPlan::storage));
static_assert(std::is_trivially_copyable_v<StoredPlan>);

bool aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

// A row-major bf16 [rows, k], read in boxes of box_rows by one k step.
LaunchError encode_map(CUtensorMap* map, const void* data, int rows, int k, int box_rows) {
  TileMapShape shape;
  shape.rank = 2;
  shape.size[0] = static_cast<uint64_t>(k);
  shape.size[1] = static_cast<uint64_t>(rows);
  shape.stride_bytes[1] = static_cast<uint64_t>(k) * sizeof(bf16);
  shape.box[0] = kPrefillStepK;
  shape.box[1] = static_cast<uint32_t>(box_rows);
  return encode_tile_map(map, Element::kBF16, data, shape);
}

LaunchError check_device() {
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
  if (error != cudaSuccess) return error;
  return major == 9 && minor == 0 ? cudaSuccess : cudaErrorNotSupported;
}

// Kernels that share a multiprocessor must agree on how it divides its memory.
cudaError_t allow_shared_memory(const PrefillForm& form) {
  const cudaError_t error = cudaFuncSetAttribute(
      form.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, form.smem_bytes);
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(form.kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                              cudaSharedmemCarveoutMaxShared);
}

// How many clusters run at once.
cudaError_t count_clusters(const PrefillForm& form, int cluster, int* count) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(cluster));
  config.blockDim = dim3(static_cast<unsigned>(form.threads));
  config.dynamicSmemBytes = static_cast<size_t>(form.smem_bytes);
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaOccupancyMaxActiveClusters(count, form.kernel, &config);
}

PrefillParams params_of(const PrefillLinearProblem& problem, const PrefillTuning& t) {
  PrefillParams p{};
  p.y = static_cast<bf16*>(problem.y);
  p.bias = static_cast<const bf16*>(problem.bias);
  p.live = problem.rows.live;
  p.m = problem.rows.maximum;
  p.n = problem.n;
  p.k = problem.k;
  p.out_n = prefill_out_n(problem);
  p.k_steps = problem.k / kPrefillStepK / t.split;
  p.row_blocks = t.row_blocks;
  p.column_blocks = t.column_blocks;
  p.num_columns = prefill_super_columns(problem, t);
  p.group = kWalkRows / (kPrefillTileM * t.row_blocks);
  return p;
}

}  // namespace

bool prefill_linear_serves(const PrefillLinearProblem& q) {
  const int columns = q.epilogue == PrefillEpilogue::kSiluMul ? 16 : 8;
  if (q.rows.maximum < 1 || q.n < columns || q.n % columns != 0) return false;
  if (q.k < kPrefillStepK || q.k % kPrefillStepK != 0) return false;
  if (q.w == nullptr || q.x == nullptr || q.y == nullptr) return false;
  return aligned(q.w) && aligned(q.x) && aligned(q.y) && aligned(q.bias);
}

LaunchError prefill_linear_plan_tuned(const PrefillLinearProblem& problem,
                                      const PrefillTuning& tuning, PrefillLinearPlan* plan) {
  if (!prefill_linear_serves(problem) || !prefill_tuning_valid(problem, tuning)) {
    return cudaErrorInvalidValue;
  }
  LaunchError error = check_device();
  if (error != cudaSuccess) return error;
  const PrefillForm form = find_prefill_form(problem.epilogue, tuning);

  StoredPlan stored{};
  stored.params = params_of(problem, tuning);
  stored.kernel = form.kernel;
  stored.cluster = tuning.cluster();
  stored.threads = form.threads;
  stored.smem_bytes = form.smem_bytes;
  error = allow_shared_memory(form);
  int at_once = 0;
  if (error == cudaSuccess) error = count_clusters(form, stored.cluster, &at_once);
  if (error == cudaSuccess && at_once == 0) error = cudaErrorNotSupported;
  if (error == cudaSuccess) {
    error = encode_map(&stored.w_map, problem.w, problem.n, problem.k, tuning.tile_n / 2);
  }
  if (error == cudaSuccess) {
    error = encode_map(&stored.x_map, problem.x, problem.rows.maximum, problem.k,
                       kPrefillTileM / tuning.column_blocks);
  }
  if (error != cudaSuccess) return error;
  // An exchange of partial sums takes the ring's place, so its clusters have one tile each.
  const int tiles = prefill_super_rows(problem, tuning) * prefill_super_columns(problem, tuning);
  stored.params.num_clusters = tuning.split > 1 ? tiles : std::min(tiles, at_once);
  std::memcpy(plan->storage, &stored, sizeof(stored));
  return cudaSuccess;
}

LaunchError prefill_linear_run(const PrefillLinearPlan& plan, const Launch& launch) {
  StoredPlan stored;
  std::memcpy(&stored, plan.storage, sizeof(stored));
  const auto blocks = static_cast<unsigned>(stored.params.num_clusters * stored.cluster);
  return launch_clusters(stored.kernel, dim3(blocks), dim3(static_cast<unsigned>(stored.threads)),
                         stored.cluster, static_cast<size_t>(stored.smem_bytes), launch,
                         stored.w_map, stored.x_map, stored.params);
}

}  // namespace encore::gpu
