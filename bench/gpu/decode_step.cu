#include "decode_step.h"
#include "graph_timer.h"
#include "launch.cuh"

namespace encore::gpu {
namespace {

constexpr int kAttentionSmemBytes = 96 << 10;  // as the attention kernel of decode
constexpr int kMostRows = 64;
constexpr float kEps = 1e-5F;

template <typename T>
T* allocate(size_t count) {
  void* p = nullptr;
  check(cudaMalloc(&p, count * sizeof(T)), "allocation");
  check(cudaMemset(p, 0, count * sizeof(T)), "memset");
  return static_cast<T*>(p);
}

// Uniform in +-range.
__global__ void fill(bf16* p, size_t count, float range) {
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += stride) {
    const uint32_t hash = static_cast<uint32_t>((i * 0x9e3779b97f4a7c15ULL) >> 32) * 0x85ebca6bU;
    p[i] = __float2bfloat16((static_cast<float>(hash) / 2147483648.0F - 1.0F) * range);
  }
}

// Streams `count` vectors through registers.
__global__ void __launch_bounds__(512) read_all(const uint4* p, size_t count, uint32_t* out) {
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  uint32_t x = 0;
  size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  for (; i + 7 * stride < count; i += 8 * stride) {
    uint4 v[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = __ldcs(p + i + j * stride);
#pragma unroll
    for (int j = 0; j < 8; ++j) x ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
  }
  if (x == 0x12345678) *out = x;
}

// The step's start: x = h0, its sum of squares, and h = h0. One block a row.
__global__ void embed(const bf16* h0, bf16* h, bf16* x, float* sumsq) {
  release_next_kernel();
  wait_for_previous_kernel();
  __shared__ float sums[32];
  float sum = 0.0F;
  for (int i = threadIdx.x; i < kHidden; i += blockDim.x) {
    const bf16 v = h0[size_t{blockIdx.x} * kHidden + i];
    h[size_t{blockIdx.x} * kHidden + i] = v;
    x[size_t{blockIdx.x} * kHidden + i] = v;
    sum += __bfloat162float(v) * __bfloat162float(v);
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, d);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < static_cast<int>(blockDim.x) / 32; ++i) sum += sums[i];
  sumsq[blockIdx.x] = sum;
}

// Stands for rope with KV write: reads and writes qkv once.
__global__ void rope(bf16* qkv) {
  release_next_kernel();
  wait_for_previous_kernel();
  const size_t i = (size_t{blockIdx.x} * kQkvRows) + blockIdx.y * blockDim.x + threadIdx.x;
  qkv[i] = __float2bfloat16(__bfloat162float(qkv[i]) * 0.5F);
}

// Stands for attention: 128 blocks with as much shared memory that take `cycles`.
__global__ void attention(const bf16* qkv, bf16* out, int m, int cycles) {
  release_next_kernel();
  wait_for_previous_kernel();
  const long long start = clock64();
  const int per_block = m * kHidden / static_cast<int>(gridDim.x);
  for (int i = threadIdx.x; i < per_block; i += blockDim.x) {
    const int at = blockIdx.x * per_block + i;
    out[at] = qkv[size_t{static_cast<unsigned>(at / kHidden)} * kQkvRows + at % kHidden];
  }
  while (clock64() - start < cycles) {
  }
}

// Kernels that share a multiprocessor must agree on how it divides its memory.
template <typename Kernel>
void agree_on_shared_memory(Kernel kernel) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared),
        "carve-out");
}

void enqueue_attention(const StepMemory& b, int m, int cycles, const Launch& launch) {
  check(launch_kernel(rope, dim3(m, kQkvRows / 512), dim3(512), 0, launch, b.qkv), "rope");
  check(launch_kernel(attention, dim3(128), dim3(128), kAttentionSmemBytes, launch, b.qkv,
                      b.attended, m, cycles),
        "attention");
}

}  // namespace

StepMemory::StepMemory()
    : weights(allocate<bf16>(kElements)),
      norm(allocate<bf16>(kHidden)),
      h0(allocate<bf16>(kMostRows * kHidden)),
      h(allocate<bf16>(kMostRows * kHidden)),
      x(allocate<bf16>(kMostRows * kHidden)),
      qkv(allocate<bf16>(kMostRows * kQkvRows)),
      attended(allocate<bf16>(kMostRows * kHidden)),
      act(allocate<bf16>(kMostRows * kInter)),
      logits(allocate<float>(kMostRows * size_t{kVocab})),
      sumsq(allocate<float>(kMostRows * kDecodeLinearMaxSumsq)),
      sink(allocate<uint32_t>(1)) {
  fill<<<2048, 256>>>(weights, kElements, 1.7F / 64);
  fill<<<64, 256>>>(norm, kHidden, 1.0F);
  fill<<<64, 256>>>(h0, kMostRows * kHidden, 1.7F);
  fill<<<64, 256>>>(x, kMostRows * kHidden, 1.7F);
  fill<<<64, 256>>>(attended, kMostRows * kHidden, 1.7F);
  fill<<<64, 256>>>(act, kMostRows * kInter, 1.7F);
  check(cudaDeviceSynchronize(), "fill");
  agree_on_shared_memory(embed);
  agree_on_shared_memory(rope);
  agree_on_shared_memory(attention);
  check(cudaFuncSetAttribute(attention, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             kAttentionSmemBytes),
        "attention");
}

DecodeLinearProblem problem_of(const StepMemory& b, Which which, int layer, int m, int num_sumsq) {
  DecodeLinearProblem q;
  q.m = m;
  q.k = which == kDownOf ? kInter : kHidden;
  const bf16* w = b.weights + layer * kLayerElements;
  if (which == kQkvOf) {
    q.n = kQkvRows, q.x = b.x, q.y = b.qkv;
  } else if (which == kHeadOf) {
    w = b.weights + kLayers * kLayerElements;
    q.n = kVocab, q.x = b.x, q.y = b.logits, q.output = Element::kF32;
  } else if (which == kOOf) {
    w += size_t{kQkvRows} * kHidden;
    q.n = kHidden, q.x = b.attended, q.y = b.h, q.epilogue = DecodeEpilogue::kAdd;
  } else if (which == kGateUpOf) {
    w += size_t{kQkvRows + kHidden} * kHidden;
    q.n = 2 * kInter, q.x = b.x, q.y = b.act, q.epilogue = DecodeEpilogue::kSiluMul;
  } else {
    w += size_t{kQkvRows + kHidden + 2 * kInter} * kHidden;
    q.n = kHidden, q.x = b.act, q.y = b.h, q.epilogue = DecodeEpilogue::kAdd;
  }
  q.w = w;
  if (q.epilogue == DecodeEpilogue::kAdd) {
    q.norm_weight = b.norm, q.x_out = b.x, q.sumsq_out = b.sumsq;
  } else {
    q.sumsq = b.sumsq, q.num_sumsq = num_sumsq, q.eps = kEps;
  }
  return q;
}

std::vector<DecodeLinearPlan> plan_step(const StepMemory& b, int m, const Variants& variants) {
  std::vector<DecodeLinearPlan> plans;
  int num_sumsq = 1;
  auto add = [&](Which which, int layer) {
    DecodeLinearPlan plan;
    check(decode_linear_plan(problem_of(b, which, layer, m, num_sumsq), variants.of[which], &plan),
          kNames[which]);
    if (plan.num_sumsq_out > 0) num_sumsq = plan.num_sumsq_out;
    plans.push_back(plan);
  };
  for (int layer = 0; layer < kLayers; ++layer) {
    for (const Which which : {kQkvOf, kOOf, kGateUpOf, kDownOf}) add(which, layer);
  }
  add(kHeadOf, 0);
  return plans;
}

void enqueue_step(const std::vector<DecodeLinearPlan>& plans, const StepMemory& b, int m,
                  int attention_cycles, const Launch& launch) {
  const Launch first{launch.stream, false};
  check(launch_kernel(embed, dim3(m), dim3(512), 0, first, b.h0, b.h, b.x, b.sumsq), "embed");
  for (int layer = 0; layer < kLayers; ++layer) {
    check(decode_linear_run(plans[4 * layer], launch), "qkv");
    enqueue_attention(b, m, attention_cycles, launch);
    for (int i = 1; i < 4; ++i) check(decode_linear_run(plans[4 * layer + i], launch), kNames[i]);
  }
  check(decode_linear_run(plans.back(), launch), "lm_head");
}

void enqueue_read(const StepMemory& b, cudaStream_t stream) {
  int device = 0;
  int num_sms = 0;
  check(cudaGetDevice(&device), "device");
  check(cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount, device), "device");
  read_all<<<num_sms * 4, 512, 0, stream>>>(reinterpret_cast<const uint4*>(b.weights),
                                            kElements / 8, b.sink);
}

}  // namespace encore::gpu
