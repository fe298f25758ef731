// How near the weight-streaming product comes to memory bandwidth on Llama-3.1-8B shapes.
//
// First table: each product alone, every variant, in GB/s, beside a plain read of the same weights
// in the same run. Second: a whole decode step as one graph (norms inside the products, small
// kernels for rope and attention between), with default variants, with the best that keep a row's
// bits, and with the best of all. Third: the step with all products between two attentions in one
// kernel. An argument (products, step, chain) prints one table only.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/gpu/decode_chain.h"
#include "kernels/gpu/decode_linear.h"
#include "launch.cuh"
#include "sm90/decode_linear_tuning.h"
#include "vendor.h"

namespace encore::gpu {
namespace {

constexpr int kHidden = 4096;
constexpr int kQkvRows = 6144;
constexpr int kInter = 14336;
constexpr int kVocab = 128256;
constexpr int kLayers = 32;
constexpr int kAttentionCycles = 9000;         // about 5 us
constexpr int kAttentionSmemBytes = 96 << 10;  // as the attention kernel of decode
constexpr float kEps = 1e-5F;
constexpr int kMeasuredRows[] = {1, 8, 16, 32, 64};

void check(int error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(static_cast<cudaError_t>(error)));
  std::exit(1);
}

template <typename T>
T* allocate(size_t count) {
  void* p = nullptr;
  check(cudaMalloc(&p, count * sizeof(T)), "allocation");
  check(cudaMemset(p, 0, count * sizeof(T)), "memset");
  return static_cast<T*>(p);
}

// ---- kernels besides the products ----

// Uniform in +-range.
__global__ void fill(bf16* p, size_t count, float range) {
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += stride) {
    const uint32_t hash = static_cast<uint32_t>((i * 0x9e3779b97f4a7c15ULL) >> 32) * 0x85ebca6bU;
    p[i] = __float2bfloat16((static_cast<float>(hash) / 2147483648.0F - 1.0F) * range);
  }
}

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

// ---- the step ----

enum Which { kQkvOf, kOOf, kGateUpOf, kDownOf, kHeadOf, kProducts };
constexpr const char* kNames[kProducts] = {"qkv", "o", "gate_up", "down", "lm_head"};

constexpr size_t kLayerElements =
    static_cast<size_t>(kHidden) * (kQkvRows + kHidden + 3 * size_t{kInter});
constexpr size_t kElements = kLayers * kLayerElements + static_cast<size_t>(kVocab) * kHidden;

struct Memory {
  bf16* weights = allocate<bf16>(kElements);
  bf16* norm = allocate<bf16>(kHidden);
  bf16* h0 = allocate<bf16>(64 * kHidden);
  bf16* h = allocate<bf16>(64 * kHidden);
  bf16* x = allocate<bf16>(64 * kHidden);
  bf16* qkv = allocate<bf16>(64 * kQkvRows);
  bf16* attended = allocate<bf16>(64 * kHidden);
  bf16* act = allocate<bf16>(64 * kInter);
  float* logits = allocate<float>(64 * size_t{kVocab});
  float* sumsq = allocate<float>(64 * kDecodeLinearMaxSumsq);
  uint32_t* sink = allocate<uint32_t>(1);
  void* scratch = nullptr;

  Memory() {
    fill<<<2048, 256>>>(weights, kElements, 1.7F / 64);
    fill<<<64, 256>>>(norm, kHidden, 1.0F);
    fill<<<64, 256>>>(h0, 64 * kHidden, 1.7F);
    fill<<<64, 256>>>(x, 64 * kHidden, 1.7F);
    fill<<<64, 256>>>(attended, 64 * kHidden, 1.7F);
    fill<<<64, 256>>>(act, 64 * kInter, 1.7F);
    DecodeChainProblem sizes;
    sizes.hidden_size = sizes.q_size = kHidden, sizes.inter_size = kInter;
    scratch = allocate<unsigned char>(decode_chain_scratch_bytes(sizes));
    check(cudaDeviceSynchronize(), "fill");
  }
};

// Product `which` of layer `layer`; num_sumsq: what the product before leaves.
DecodeLinearProblem problem_of(const Memory& b, Which which, int layer, int m, int num_sumsq) {
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

struct Variants {
  int of[kProducts] = {};
};

std::vector<DecodeLinearPlan> plan_step(const Memory& b, int m, const Variants& variants) {
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

void enqueue_attention(const Memory& b, int m, int cycles, const Launch& launch) {
  check(launch_kernel(rope, dim3(m, kQkvRows / 512), dim3(512), 0, launch, b.qkv), "rope");
  check(launch_kernel(attention, dim3(128), dim3(128), kAttentionSmemBytes, launch, b.qkv,
                      b.attended, m, cycles),
        "attention");
}

void enqueue_step(const std::vector<DecodeLinearPlan>& plans, const Memory& b, int m, int cycles,
                  const Launch& launch) {
  const Launch first{launch.stream, false};
  check(launch_kernel(embed, dim3(m), dim3(512), 0, first, b.h0, b.h, b.x, b.sumsq), "embed");
  for (int layer = 0; layer < kLayers; ++layer) {
    check(decode_linear_run(plans[4 * layer], launch), "qkv");
    enqueue_attention(b, m, cycles, launch);
    for (int i = 1; i < 4; ++i) check(decode_linear_run(plans[4 * layer + i], launch), kNames[i]);
  }
  check(decode_linear_run(plans.back(), launch), "lm_head");
}

// ---- the step in chains ----

DecodeChainProblem chain_problem_of(const Memory& b, int layer, int m) {
  DecodeChainProblem q;
  q.m = m, q.hidden_size = q.q_size = kHidden, q.inter_size = kInter;
  q.qkv_size = layer + 1 < kLayers ? kQkvRows : 0;
  const bf16* w = b.weights + layer * kLayerElements;
  q.o = w + size_t{kQkvRows} * kHidden;
  q.gate_up = w + size_t{kQkvRows + kHidden} * kHidden;
  q.down = w + size_t{kQkvRows + kHidden + 2 * kInter} * kHidden;
  q.qkv_weight = w + kLayerElements;
  q.mlp_norm = q.next_norm = b.norm;
  q.eps = kEps;
  q.attended = b.attended, q.hidden = b.h, q.qkv = b.qkv, q.normed = b.x, q.sumsq = b.sumsq;
  q.scratch = b.scratch;
  return q;
}

struct ChainStep {
  DecodeLinearPlan qkv, head;
  std::vector<DecodeChainPlan> layers{kLayers};
};

ChainStep plan_chains(const Memory& b, int m, int variant) {
  ChainStep step;
  check(decode_linear_plan(problem_of(b, kQkvOf, 0, m, 1), 0, &step.qkv), "qkv");
  for (int layer = 0; layer < kLayers; ++layer) {
    check(decode_chain_plan(chain_problem_of(b, layer, m), variant, &step.layers[layer]), "chain");
  }
  const int num_sumsq = kHidden / kDecodeChainSumsqRows;
  check(decode_linear_plan(problem_of(b, kHeadOf, 0, m, num_sumsq), 0, &step.head), "lm_head");
  return step;
}

// Without `attends`, chain after chain.
void enqueue_chains(const ChainStep& step, const Memory& b, int m, bool attends, int cycles,
                    const Launch& launch) {
  const Launch first{launch.stream, false};
  check(launch_kernel(embed, dim3(m), dim3(512), 0, first, b.h0, b.h, b.x, b.sumsq), "embed");
  check(decode_linear_run(step.qkv, launch), "qkv");
  for (const DecodeChainPlan& layer : step.layers) {
    if (attends) enqueue_attention(b, m, cycles, launch);
    check(decode_chain_run(layer, launch), "chain");
  }
  check(decode_linear_run(step.head, launch), "lm_head");
}

// ---- timing ----

// Median milliseconds of one graph that holds `enqueue`.
double time_graph(const std::function<void(cudaStream_t)>& enqueue, int rounds) {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  enqueue(stream);
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = -2; i < rounds; ++i) {
    float ms = 0.0F;
    check(cudaEventRecord(begin, stream), "record");
    check(cudaGraphLaunch(executable, stream), "launch");
    check(cudaEventRecord(end, stream), "record");
    check(cudaEventSynchronize(end), "run");
    check(cudaEventElapsedTime(&ms, begin, end), "elapsed");
    if (i >= 0) times.push_back(ms);
  }
  check(cudaEventDestroy(begin), "event");
  check(cudaEventDestroy(end), "event");
  check(cudaGraphExecDestroy(executable), "graph");
  check(cudaGraphDestroy(graph), "graph");
  check(cudaStreamDestroy(stream), "stream");
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

double time_step(const Memory& b, int m, const Variants& variants, int cycles, bool overlap,
                 int rounds) {
  const std::vector<DecodeLinearPlan> plans = plan_step(b, m, variants);
  return time_graph(
      [&](cudaStream_t stream) {
        enqueue_step(plans, b, m, cycles, {stream, overlap});
      },
      rounds);
}

// ---- tables ----

std::string text_of(const DecodeTuning& t) {
  char text[64];
  std::snprintf(text, sizeof(text), "%dx%d%s k/%d %dK t%d%s", t.warpgroups, t.tiles,
                t.sets == 2 ? " 2 sets" : "", t.split, t.smem_bytes >> 10, t.trigger_steps,
                t.blocks_per_sm == 2 ? " 2/SM" : "");
  return text;
}

// One product of all layers in a row. Variants differ with m only in order, so rows are tunings.
void print_alone(const Memory& b, Which which, double read_rate) {
  struct Row {
    std::string name;
    double rate[std::size(kMeasuredRows)] = {};
  };
  std::vector<Row> rows;
  for (size_t column = 0; column < std::size(kMeasuredRows); ++column) {
    const int m = kMeasuredRows[column];
    const int layers = which == kHeadOf ? 3 : kLayers;
    const DecodeLinearProblem first = problem_of(b, which, 0, m, 128);
    const std::vector<DecodeTuning> tunings = decode_tunings(first, decode_num_sms());
    for (size_t v = 0; v < tunings.size(); ++v) {
      std::vector<DecodeLinearPlan> plans(layers);
      for (int layer = 0; layer < layers; ++layer) {
        check(decode_linear_plan(problem_of(b, which, layer, m, 128), static_cast<int>(v),
                                 &plans[layer]),
              kNames[which]);
      }
      const double ms = time_graph(
          [&](cudaStream_t stream) {
            for (const DecodeLinearPlan& plan : plans) {
              check(decode_linear_run(plan, {stream, true}), kNames[which]);
            }
          },
          3);
      const std::string name = text_of(tunings[v]);
      auto row = std::find_if(rows.begin(), rows.end(),
                              [&](const Row& other) { return other.name == name; });
      if (row == rows.end()) row = rows.insert(rows.end(), Row{name, {}});
      row->rate[column] = 2.0 * first.n * first.k * layers / ms / 1e6;
    }
  }
  for (const Row& row : rows) {
    std::printf("%-8s %-24s", kNames[which], row.name.c_str());
    for (const double rate : row.rate) {
      rate > 0 ? std::printf(" %5.0f (%2.0f%%)", rate, 100 * rate / read_rate)
               : std::printf(" %11s", "-");
    }
    std::printf("\n");
  }
}

// Coordinate descent over the step's variants; keep_bits: only those that keep a row's bits.
double improve(const Memory& b, int m, bool keep_bits, double best, Variants* variants) {
  for (const Which which : {kGateUpOf, kDownOf, kQkvOf, kOOf, kHeadOf}) {
    const DecodeLinearProblem q = problem_of(b, which, 0, m, 128);
    const int start = variants->of[which];
    for (int v = 0; v < decode_linear_num_variants(q); ++v) {
      const bool same_bits = decode_linear_bits(q, v) == decode_linear_bits(q, 0);
      if (v == start || (keep_bits && !same_bits)) continue;
      Variants other = *variants;
      other.of[which] = v;
      const double ms = time_step(b, m, other, kAttentionCycles, true, 3);
      if (ms < best * 0.999) best = ms, *variants = other;
    }
  }
  return best;
}

void print_variants(const Memory& b, int m, const Variants& variants) {
  for (int i = 0; i < kProducts; ++i) {
    const auto tunings =
        decode_tunings(problem_of(b, static_cast<Which>(i), 0, m, 128), decode_num_sms());
    std::printf("%s %s{%s}", i == 0 ? "      " : "", kNames[i],
                text_of(tunings[variants.of[i]]).c_str());
  }
  std::printf("\n");
}

void print_step(const Memory& b, int m, double floor_ms) {
  Variants variants;
  const double default_ms = time_step(b, m, variants, kAttentionCycles, true, 9);
  const double same_ms = improve(b, m, true, default_ms, &variants);
  const Variants same = variants;
  const double free_ms = improve(b, m, false, same_ms, &variants);
  const double no_overlap_ms = time_step(b, m, same, kAttentionCycles, false, 5);
  const double no_attention_ms = time_step(b, m, same, 0, true, 5);
  std::printf("%3d %8.3f %8.3f %8.3f %10.3f %12.3f %8.3f (%2.0f%%)\n", m, default_ms, same_ms,
              free_ms, no_overlap_ms, no_attention_ms, floor_ms, 100 * floor_ms / same_ms);
  print_variants(b, m, same);
  print_variants(b, m, variants);
  std::fflush(stdout);
}

void print_chains(const Memory& b, int m, double floor_ms) {
  const double separate_ms = time_step(b, m, {}, kAttentionCycles, true, 9);
  std::printf("%3d %8.3f", m, separate_ms);
  double best = separate_ms;
  for (int variant = 0; variant < kDecodeChainVariants; ++variant) {
    const ChainStep step = plan_chains(b, m, variant);
    auto time = [&](bool attends, int cycles, bool overlap) {
      const double ms = time_graph(
          [&](cudaStream_t stream) {
            enqueue_chains(step, b, m, attends, cycles, {stream, overlap});
          },
          9);
      std::printf(" %8.3f", ms);
      return ms;
    };
    best = std::min(best, time(true, kAttentionCycles, true));
    time(true, kAttentionCycles, false);
    time(true, 0, true);
    time(false, 0, true);
  }
  std::printf(" %8.3f (%2.0f%%)\n", floor_ms, 100 * floor_ms / best);
  std::fflush(stdout);
}

// Kernels that share a multiprocessor must agree on how it divides its memory.
template <typename Kernel>
void agree_on_shared_memory(Kernel kernel) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared),
        "carve-out");
}

int run(std::string_view only) {
  const Memory b;
  agree_on_shared_memory(embed);
  agree_on_shared_memory(rope);
  agree_on_shared_memory(attention);
  check(cudaFuncSetAttribute(attention, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             kAttentionSmemBytes),
        "attention");
  const double bytes = 2.0 * kElements;
  const double read_ms = time_graph(
      [&](cudaStream_t stream) {
        read_all<<<132 * 4, 512, 0, stream>>>(reinterpret_cast<const uint4*>(b.weights),
                                              kElements / 8, b.sink);
      },
      5);
  const double read_rate = bytes / read_ms / 1e6;
  std::printf("weights %.3f GB, plain read %.0f GB/s (%.3f ms)\n\n", bytes / 1e9, read_rate,
              read_ms);

  auto wants = [&](std::string_view table) { return only.empty() || only == table; };
  if (wants("products")) {
    std::printf("GB/s of a product of all layers in a row (of plain read)\n%-33s", "");
    for (const int m : kMeasuredRows) std::printf(" m %-9d", m);
    std::printf("\n");
    for (int i = 0; i < kProducts; ++i) print_alone(b, static_cast<Which>(i), read_rate);
  }
  if (wants("step")) {
    std::printf("\nms a step\n%3s %8s %8s %8s %10s %12s %8s\n", "m", "default", "same", "free",
                "no overlap", "no attention", "floor");
    for (const int m : kMeasuredRows) print_step(b, m, read_ms);
  }
  if (wants("chain")) {
    std::printf(
        "\nms a step, chains of 227 KB | of 130 KB (serial: no overlap; empty: attention of "
        "no time;\nalone: no rope or attention at all)\n%3s %8s",
        "m", "default");
    for (int i = 0; i < kDecodeChainVariants; ++i) {
      std::printf(" %8s %8s %8s %8s", "chain", "serial", "empty", "alone");
    }
    std::printf(" %8s\n", "floor");
    for (const int m : kMeasuredRows) print_chains(b, m, read_ms);
  }
  return 0;
}

}  // namespace
}  // namespace encore::gpu

int main(int argc, char** argv) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::printf("no GPU here\n");
    return 0;
  }
  return encore::gpu::run(argc > 1 ? argv[1] : "");
}
