// Host side of the weight-streaming product: checks, tensor maps, launch.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/gpu/decode_linear.h"
#include "sm90/decode_linear_geometry.h"
#include "sm90/decode_linear_shape.cuh"
#include "sm90/device.h"
#include "sm90/tma.cuh"

namespace encore::gpu {
namespace {

struct StoredPlan {
  CUtensorMap w_map;
  CUtensorMap x_map;
  DecodeParams params;
  DecodeKernel kernel;
  int blocks, threads, smem_bytes;
};
static_assert(sizeof(StoredPlan) <= sizeof(DecodeLinearPlan::storage));
static_assert(std::is_trivially_copyable_v<StoredPlan>);

DecodeParams params_of(const DecodeLinearProblem& problem, const DecodeTuning& tuning,
                       const DecodeGeometry& g) {
  DecodeParams p{};
  p.y = problem.y;
  p.bias = static_cast<const bf16*>(problem.bias);
  p.norm = {problem.sumsq, problem.num_sumsq, problem.eps};
  p.norm_weight = static_cast<const bf16*>(problem.norm_weight);
  p.x_out = static_cast<bf16*>(problem.x_out);
  p.sumsq_out = problem.sumsq_out;
  p.m = problem.m;
  p.n = problem.n;
  p.k = problem.k;
  p.store_f32 = problem.output == Element::kF32;
  p.split = g.split;
  p.num_row_groups = g.num_row_groups;
  p.k_steps = g.k_steps;
  p.stages = g.stages;
  p.trigger_steps = tuning.trigger_steps;
  return p;
}

// Both are the kernel's, shared by all its plans: hence the most, not a plan's own bytes. Kernels
// that share a multiprocessor must agree on how it divides its memory.
cudaError_t allow_shared_memory(DecodeKernel kernel) {
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kWholeSmemBytes);
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                              cudaSharedmemCarveoutMaxShared);
}

}  // namespace

bool decode_linear_serves(const DecodeLinearProblem& q) {
  const bool silu = q.epilogue == DecodeEpilogue::kSiluMul;
  const bool add = q.epilogue == DecodeEpilogue::kAdd;
  if (q.m < 1 || q.m > kDecodeLinearMaxRows || q.n < 8 || q.n % (silu ? 16 : 8) != 0) return false;
  if (q.k < kStepK || q.k % kStepK != 0) return false;
  if (q.w == nullptr || q.x == nullptr || q.y == nullptr) return false;
  for (const void* p : {q.w, q.x, static_cast<const void*>(q.y), q.bias, q.norm_weight,
                        static_cast<const void*>(q.x_out)}) {
    if (!is_aligned(p)) return false;
  }
  if (q.output != Element::kBF16 &&
      (q.output != Element::kF32 || q.epilogue != DecodeEpilogue::kStore)) {
    return false;
  }
  if (q.sumsq != nullptr && q.num_sumsq < 1) return false;
  const int outputs = (q.norm_weight != nullptr) + (q.x_out != nullptr) + (q.sumsq_out != nullptr);
  return outputs == 0 || (add && outputs == 3);
}

LaunchError decode_linear_plan_tuned(const DecodeLinearProblem& problem, const DecodeTuning& tuning,
                                     DecodeLinearPlan* plan) {
  if (!decode_linear_serves(problem) || tuning.split < 1) return cudaErrorInvalidValue;
  int num_sms = 0;
  LaunchError error = check_sm90(&num_sms);
  if (error != cudaSuccess) return error;
  const DecodeGeometry g = decode_geometry(problem, tuning, num_sms);
  if (!decode_geometry_valid(problem, g)) return cudaErrorInvalidValue;

  StoredPlan stored{};
  stored.params = params_of(problem, tuning, g);
  stored.kernel = pick_decode_kernel(g.token_tile, g.form);
  stored.blocks = g.num_clusters * g.split;
  stored.threads = g.threads;
  stored.smem_bytes = g.smem_bytes;
  error = allow_shared_memory(stored.kernel);
  const int boxes = problem.epilogue == DecodeEpilogue::kSiluMul ? 2 : 1;
  if (error == cudaSuccess) {
    error = encode_operand_map(&stored.w_map, problem.w, problem.n, problem.k,
                               tuning.row_tiles() * kMmaRows / boxes);
  }
  if (error == cudaSuccess) {
    error = encode_operand_map(&stored.x_map, problem.x, problem.m, problem.k, g.token_tile);
  }
  if (error != cudaSuccess) return error;
  std::memcpy(plan->storage, &stored, sizeof(stored));
  plan->num_sumsq_out = problem.x_out != nullptr ? g.num_sumsq_out : 0;
  return cudaSuccess;
}

LaunchError decode_linear_plan(const DecodeLinearProblem& problem, int32_t variant,
                               DecodeLinearPlan* plan) {
  const std::vector<DecodeTuning> tunings = decode_tunings(problem, decode_num_sms());
  if (variant < 0 || variant >= static_cast<int32_t>(tunings.size())) return cudaErrorInvalidValue;
  return decode_linear_plan_tuned(problem, tunings[variant], plan);
}

LaunchError decode_linear_run(const DecodeLinearPlan& plan, const Launch& launch) {
  StoredPlan stored;
  std::memcpy(&stored, plan.storage, sizeof(stored));
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {static_cast<unsigned>(stored.params.split), 1, 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(stored.blocks));
  config.blockDim = dim3(static_cast<unsigned>(stored.threads));
  config.dynamicSmemBytes = static_cast<size_t>(stored.smem_bytes);
  config.stream = static_cast<cudaStream_t>(launch.stream);
  config.attrs = attributes;
  config.numAttrs = launch.overlap ? 2 : 1;
  return cudaLaunchKernelEx(&config, stored.kernel, stored.w_map, stored.x_map, stored.params);
}

}  // namespace encore::gpu
