// Host side of the decode chain: checks, cutting, tensor maps, launch.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/gpu/decode_chain.h"
#include "launch.cuh"
#include "sm90/decode_chain_kernel.cuh"
#include "sm90/decode_chain_tuning.h"
#include "sm90/decode_linear_tuning.h"
#include "sm90/tma.cuh"

namespace encore::gpu {
namespace {

using ChainKernel = void (*)(ChainMaps, ChainParams);

struct StoredChain {
  ChainMaps maps;
  ChainParams params;
  ChainKernel kernel;
  int blocks, smem_bytes;
};
static_assert(sizeof(StoredChain) <= sizeof(DecodeChainPlan::storage));
static_assert(std::is_trivially_copyable_v<StoredChain>);

constexpr int kDeepStep = 2 * kStepK;
// Beside the attention kernel, which takes 97 KB of a multiprocessor's 227.
constexpr int kSharedSmemBytes = 130 * 1024;

int tokens_of(int m) { return m <= 8 ? 8 : m <= 16 ? 16 : m <= 32 ? 32 : 64; }

ChainKernel kernel_of(int tokens) {
  switch (tokens) {
    case 8:
      return decode_chain_kernel<8>;
    case 16:
      return decode_chain_kernel<16>;
    case 32:
      return decode_chain_kernel<32>;
    default:
      return decode_chain_kernel<64>;
  }
}

bool aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

struct Scratch {
  size_t mail, sumsq, act, bytes;
};
// The same for every m: mail of one launch must not lie where another's activations did, whose bits
// might look like a tag.
Scratch scratch_of(const DecodeChainProblem& q, int num_sms) {
  Scratch at{};
  at.mail = 256;
  static_assert(sizeof(ChainControl) <= 256);
  at.sumsq = at.mail + size_t{8} * chain_mail_words(kDecodeChainMaxRows) * num_sms;
  at.act = at.sumsq + size_t{4} * kDecodeChainMaxRows * (q.hidden_size / kMmaRows);
  at.bytes = at.act + size_t{2} * kDecodeChainMaxRows * q.inter_size;
  return at;
}

ChainParams params_of(const DecodeChainProblem& q, const Scratch& at) {
  ChainParams p{};
  p.product[kChainO] = {q.hidden_size / kMmaRows, q.q_size / kDeepStep};
  p.product[kChainGateUp] = {q.inter_size / kMmaRows, q.hidden_size / kStepK};
  p.product[kChainDown] = {q.hidden_size / kMmaRows, q.inter_size / kDeepStep};
  p.product[kChainQkv] = {q.qkv_size / kMmaRows, q.hidden_size / kDeepStep};
  p.num_products = q.qkv_size > 0 ? kChainProducts : kChainQkv;
  p.m = q.m;
  p.hidden_size = q.hidden_size;
  p.inter_size = q.inter_size;
  p.qkv_size = q.qkv_size;
  p.eps = q.eps;
  p.norm[0] = static_cast<const bf16*>(q.mlp_norm);
  p.norm[1] = static_cast<const bf16*>(q.next_norm);
  p.qkv_bias = static_cast<const bf16*>(q.qkv_bias);
  p.hidden = static_cast<bf16*>(q.hidden);
  p.normed = static_cast<bf16*>(q.normed);
  p.qkv = static_cast<bf16*>(q.qkv);
  auto* scratch = static_cast<unsigned char*>(q.scratch);
  p.control = reinterpret_cast<ChainControl*>(scratch);
  p.mail = reinterpret_cast<uint64_t*>(scratch + at.mail);
  p.sumsq[0] = reinterpret_cast<float*>(scratch + at.sumsq);
  p.sumsq[1] = q.sumsq;
  p.act = reinterpret_cast<bf16*>(scratch + at.act);
  return p;
}

int fewest_steps(const ChainParams& p) {
  int fewest = p.product[0].tiles * p.product[0].tile_steps;
  for (int i = 1; i < p.num_products; ++i) {
    fewest = std::min(fewest, p.product[i].tiles * p.product[i].tile_steps);
  }
  return fewest;
}

int smem_bytes_of(int stages, int tokens) {
  return kSmemAlignBytes + chain_layout(stages, tokens).bytes;
}

// A row-major bf16 [rows, k], read in boxes of box_rows by 64.
LaunchError encode_map(CUtensorMap* map, const void* data, int rows, int k, int box_rows) {
  TileMapShape shape;
  shape.rank = 2;
  shape.size[0] = static_cast<uint64_t>(k);
  shape.size[1] = static_cast<uint64_t>(rows);
  shape.stride_bytes[1] = static_cast<uint64_t>(k) * sizeof(bf16);
  shape.box[0] = kStepK;
  shape.box[1] = static_cast<uint32_t>(box_rows);
  return encode_tile_map(map, Element::kBF16, data, shape);
}

LaunchError encode_maps(const DecodeChainProblem& q, const ChainParams& p, int tokens,
                        ChainMaps* maps) {
  const void* const w[] = {q.o, q.gate_up, q.down, q.qkv_weight};
  const void* const x[] = {q.attended, q.normed, p.act, q.normed};
  const int n[] = {q.hidden_size, 2 * q.inter_size, q.hidden_size, q.qkv_size};
  const int k[] = {q.q_size, q.hidden_size, q.inter_size, q.hidden_size};
  for (int i = 0; i < p.num_products; ++i) {
    LaunchError error = encode_map(&maps->w[i], w[i], n[i], k[i], kMmaRows);
    if (error == cudaSuccess) error = encode_map(&maps->x[i], x[i], q.m, k[i], tokens);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

// As for decode_linear: the kernel's, shared by all its plans.
cudaError_t allow_shared_memory(ChainKernel kernel) {
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kWholeSmemBytes);
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                              cudaSharedmemCarveoutMaxShared);
}

}  // namespace

bool decode_chain_serves(const DecodeChainProblem& q) {
  if (q.m < 1 || q.m > kDecodeChainMaxRows) return false;
  for (const int size : {q.hidden_size, q.q_size, q.inter_size}) {
    if (size < kDeepStep || size % kDeepStep != 0) return false;
  }
  if (q.qkv_size < 0 || q.qkv_size % kMmaRows != 0) return false;
  for (const void* p : {q.o, q.gate_up, q.down, q.mlp_norm, q.next_norm, q.attended,
                        static_cast<const void*>(q.hidden), static_cast<const void*>(q.normed),
                        static_cast<const void*>(q.sumsq), static_cast<const void*>(q.scratch)}) {
    if (p == nullptr || !aligned(p)) return false;
  }
  if (q.qkv_size == 0) return true;
  return q.qkv_weight != nullptr && q.qkv != nullptr && aligned(q.qkv_weight) && aligned(q.qkv) &&
         aligned(q.qkv_bias);
}

size_t decode_chain_scratch_bytes(const DecodeChainProblem& problem) {
  const int num_sms = decode_num_sms();
  return num_sms > 0 ? scratch_of(problem, num_sms).bytes : 0;
}

LaunchError decode_chain_plan_tuned(const DecodeChainProblem& problem,
                                    const DecodeChainTuning& tuning, DecodeChainPlan* plan) {
  if (!decode_chain_serves(problem)) return cudaErrorInvalidValue;
  LaunchError error = decode_check_device();
  if (error != cudaSuccess) return error;
  const int num_sms = decode_num_sms();
  const int tokens = tokens_of(problem.m);
  StoredChain stored{};
  stored.params = params_of(problem, scratch_of(problem, num_sms));
  const int most_blocks = std::min(num_sms, fewest_steps(stored.params));
  stored.blocks = tuning.blocks > 0 ? tuning.blocks : most_blocks;
  if (stored.blocks > most_blocks) return cudaErrorInvalidValue;
  for (const ChainProduct& cut : stored.params.product) {
    if (int64_t{cut.tiles} * cut.tile_steps * (num_sms + 1) > INT32_MAX) {
      return cudaErrorInvalidValue;
    }
  }

  int stages = 0;
  while (stages < kMaxStages && smem_bytes_of(stages + 1, tokens) <= tuning.smem_bytes) ++stages;
  if (stages < 2 || tuning.smem_bytes > kWholeSmemBytes) return cudaErrorInvalidValue;
  stored.params.stages = stages;
  stored.smem_bytes = smem_bytes_of(stages, tokens);
  stored.kernel = kernel_of(tokens);
  error = encode_maps(problem, stored.params, tokens, &stored.maps);
  if (error == cudaSuccess) error = allow_shared_memory(stored.kernel);
  if (error != cudaSuccess) return error;
  std::memcpy(plan->storage, &stored, sizeof(stored));
  return cudaSuccess;
}

LaunchError decode_chain_plan(const DecodeChainProblem& problem, int32_t variant,
                              DecodeChainPlan* plan) {
  constexpr int kBudgets[kDecodeChainVariants] = {kWholeSmemBytes, kSharedSmemBytes};
  if (variant < 0 || variant >= kDecodeChainVariants) return cudaErrorInvalidValue;
  return decode_chain_plan_tuned(problem, {0, kBudgets[variant]}, plan);
}

LaunchError decode_chain_run(const DecodeChainPlan& plan, const Launch& launch) {
  StoredChain stored;
  std::memcpy(&stored, plan.storage, sizeof(stored));
  return launch_kernel(stored.kernel, dim3(static_cast<unsigned>(stored.blocks)),
                       dim3(kChainThreads), static_cast<size_t>(stored.smem_bytes), launch,
                       stored.maps, stored.params);
}

}  // namespace encore::gpu
