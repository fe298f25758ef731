// The prefill product beside cuBLASLt with timed algorithms, on the shapes of a Llama-3.1-8B layer.
//
// Captured in graphs as steps replay them, taking turns among several weights. A row is a shape and
// a number of rows m: cuBLASLt (with the SiLU-mul kernel that must follow gate_up), then
// tunings, the first of which are the variants: TFLOP/s, and GB/s of weights where those dominate.
// `apart` is how far the first variant's results are from cuBLASLt's, relative, as vectors; bf16
// gives about 2e-3. At the end, all 32 layers' products.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cublas_lt.h"
#include "kernels/gpu/prefill_linear.h"
#include "kernels/gpu/rows.h"
#include "sm90/prefill_linear_tuning.h"
#include "vendor.h"

namespace encore::cuda {
namespace {

using gpu::bf16;
using gpu::Element;
using gpu::Launch;
using gpu::PrefillEpilogue;
using gpu::PrefillLinearPlan;
using gpu::PrefillLinearProblem;
using gpu::PrefillTuning;
using gpu::ProductShape;

constexpr int kRows[] = {128, 256, 512, 1024, 2048, 4096, 8192};
constexpr int kMaxRows = 8192;
constexpr int kLayers = 32;
constexpr int kCopies = 4;         // of each weight
constexpr int kTunings = 12;       // tried; variants are the first of them
constexpr int kWeightBound = 256;  // up to here reading weights takes longer than multiplying

struct Linear {
  const char* name;
  int32_t n, k;
  PrefillEpilogue epilogue;
};
constexpr Linear kLinears[] = {{"qkv", 6144, 4096, PrefillEpilogue::kStore},
                               {"o", 4096, 4096, PrefillEpilogue::kAdd},
                               {"gate_up", 28672, 4096, PrefillEpilogue::kSiluMul},
                               {"down", 4096, 14336, PrefillEpilogue::kAdd}};
constexpr size_t kNumLinears = std::size(kLinears);

void check(int error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(static_cast<cudaError_t>(error)));
  std::exit(1);
}
void check(const Status& status) {
  if (status.ok()) return;
  std::printf("%s\n", status.to_string().c_str());
  std::exit(1);
}

// Uniform in +-range. Zeros would draw less power and run faster than real values.
__global__ void fill(bf16* p, size_t count, float range) {
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += stride) {
    const auto hash = static_cast<uint32_t>((i * 0x9e3779b97f4a7c15ULL) >> 32) * 0x85ebca6bU;
    p[i] = __float2bfloat16((static_cast<float>(hash) / 2147483648.0F - 1.0F) * range);
  }
}
// Adds to sums: |a - b|^2 and |b|^2.
__global__ void compare(const bf16* a, const bf16* b, size_t count, double* sums) {
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  double apart = 0.0;
  double norm = 0.0;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += stride) {
    const double y = __bfloat162float(b[i]);
    const double d = __bfloat162float(a[i]) - y;
    apart += d * d, norm += y * y;
  }
  atomicAdd(&sums[0], apart);
  atomicAdd(&sums[1], norm);
}

bf16* make(size_t count, float range) {
  void* p = nullptr;
  check(cudaMalloc(&p, 2 * count), "allocation");
  fill<<<1024, 256>>>(static_cast<bf16*>(p), count, range);
  check(cudaDeviceSynchronize(), "fill");
  return static_cast<bf16*>(p);
}

// Median microseconds of a replayed graph.
double graph_us(cudaStream_t stream, const std::function<void()>& enqueue) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  enqueue();  // loads kernels
  check(cudaStreamSynchronize(stream), "warm-up");
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  enqueue();
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int round = 0; round < 7; ++round) {
    check(cudaEventRecord(begin, stream), "event");
    check(cudaGraphLaunch(executable, stream), "launch");
    check(cudaEventRecord(end, stream), "event");
    check(cudaEventSynchronize(end), "replay");
    float ms = 0.0F;
    check(cudaEventElapsedTime(&ms, begin, end), "time");
    times.push_back(1000.0F * ms);
  }
  check(cudaEventDestroy(begin), "event");
  check(cudaEventDestroy(end), "event");
  check(cudaGraphExecDestroy(executable), "graph");
  check(cudaGraphDestroy(graph), "graph");
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

class Bench {
 public:
  Bench() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    auto made = CublasLt::create({});
    check(made.ok() ? Status() : made.status());
    blas_ = std::move(made).value();
    check(cudaMalloc(&workspace_, static_cast<size_t>(blas_->workspace_bytes())), "workspace");
    blas_->set_workspace(workspace_);
    x_ = make(size_t{kMaxRows} * 14336, 1.0F);
    product_ = make(size_t{kMaxRows} * 28672, 1.0F);
    blas_y_ = make(size_t{kMaxRows} * 14336, 1.0F);
    y_ = make(size_t{kMaxRows} * 14336, 1.0F);
    check(cudaMalloc(&sums_, 2 * sizeof(double)), "sums");
    check(cudaMalloc(&live_, sizeof(int32_t)), "live");
    for (size_t i = 0; i < kNumLinears; ++i) {
      for (int copy = 0; copy < kCopies; ++copy) {
        weights_[i].push_back(make(static_cast<size_t>(kLinears[i].n) * kLinears[i].k, 0.02F));
      }
    }
  }

  void run() {
    for (const int m : kRows) {
      check(cudaMemcpy(live_, &m, sizeof(m), cudaMemcpyHostToDevice), "live");
      Total total;
      for (size_t i = 0; i < kNumLinears; ++i) print_product(i, m, &total);
      std::printf("%5d 32 layers: blas %.3f ms, first variants %.3f, best %.3f\n\n", m,
                  1e-3 * kLayers * total.blas_us, 1e-3 * kLayers * total.first_us,
                  1e-3 * kLayers * total.best_us);
      std::fflush(stdout);
    }
    print_live();
  }

 private:
  struct Total {
    double blas_us = 0.0, first_us = 0.0, best_us = 0.0;
  };

  static bool silu(size_t i) { return kLinears[i].epilogue == PrefillEpilogue::kSiluMul; }
  static int out_n(size_t i) { return silu(i) ? kLinears[i].n / 2 : kLinears[i].n; }

  PrefillLinearProblem problem(size_t i, int m, int copy) const {
    PrefillLinearProblem q;
    q.rows = {live_, m};
    q.n = kLinears[i].n, q.k = kLinears[i].k;
    q.w = weights_[i][copy], q.x = x_, q.y = y_;
    q.epilogue = kLinears[i].epilogue;
    return q;
  }

  void blas_product(size_t i, int m, const void* w) {
    const bool add = kLinears[i].epilogue == PrefillEpilogue::kAdd;
    const ProductShape shape{m, kLinears[i].n, kLinears[i].k, Element::kBF16, add, false};
    check(blas_->multiply(shape, {x_, w, nullptr, silu(i) ? product_ : blas_y_}, stream_));
    if (silu(i)) {
      check(gpu::silu_mul({{live_, m}, product_, blas_y_, out_n(i)}, {stream_, true}), "silu");
    }
  }

  double blas_us(size_t i, int m) {
    const bool add = kLinears[i].epilogue == PrefillEpilogue::kAdd;
    const ProductShape shape{m, kLinears[i].n, kLinears[i].k, Element::kBF16, add, false};
    const std::vector<const void*> weights(weights_[i].begin(), weights_[i].end());
    check(blas_->tune(shape, {x_, weights[0], nullptr, silu(i) ? product_ : blas_y_}, weights,
                      stream_));
    return graph_us(stream_,
                    [&] {
                      for (const void* w : weights) blas_product(i, m, w);
                    }) /
           kCopies;
  }

  double tuning_us(size_t i, int m, const PrefillTuning& tuning) {
    std::vector<PrefillLinearPlan> plans(kCopies);
    for (int copy = 0; copy < kCopies; ++copy) {
      check(gpu::prefill_linear_plan_tuned(problem(i, m, copy), tuning, &plans[copy]), "plan");
    }
    return graph_us(stream_,
                    [&] {
                      for (const PrefillLinearPlan& plan : plans) {
                        check(gpu::prefill_linear_run(plan, {stream_, true}), "run");
                      }
                    }) /
           kCopies;
  }

  double apart(size_t i, int m) {
    const size_t count = static_cast<size_t>(m) * out_n(i);
    check(cudaMemsetAsync(y_, 0, 2 * count, stream_), "memset");
    check(cudaMemsetAsync(blas_y_, 0, 2 * count, stream_), "memset");
    check(cudaMemsetAsync(sums_, 0, 2 * sizeof(double), stream_), "memset");
    PrefillLinearPlan plan;
    check(gpu::prefill_linear_plan(problem(i, m, 0), 0, &plan), "plan");
    check(gpu::prefill_linear_run(plan, {stream_, false}), "run");
    blas_product(i, m, weights_[i][0]);
    compare<<<512, 256, 0, stream_>>>(y_, blas_y_, count, sums_);
    double sums[2];
    check(cudaMemcpyAsync(sums, sums_, sizeof(sums), cudaMemcpyDeviceToHost, stream_), "copy");
    check(cudaStreamSynchronize(stream_), "compare");
    return std::sqrt(sums[0] / sums[1]);
  }

  void print_rate(size_t i, int m, double us) const {
    const double weights = static_cast<double>(kLinears[i].n) * kLinears[i].k;
    std::printf("%8.1f us %5.0f TF/s", us, 2e-6 * m * weights / us);
    if (m <= kWeightBound) std::printf(" %5.0f GB/s", 2e-3 * weights / us);
  }

  void print_product(size_t i, int m, Total* total) {
    const double blas = blas_us(i, m);
    std::printf("%5d %-8s %-20s", m, kLinears[i].name, "cuBLASLt");
    print_rate(i, m, blas);
    std::printf("  apart %.1e\n", apart(i, m));
    double best = 1e30;
    double first = 0.0;
    const std::vector<PrefillTuning> tunings =
        gpu::prefill_tunings(problem(i, m, 0), gpu::prefill_num_sms(), kTunings);
    for (size_t t = 0; t < tunings.size(); ++t) {
      const double us = tuning_us(i, m, tunings[t]);
      std::printf("%14s %-20s", "", gpu::prefill_tuning_name(tunings[t]).c_str());
      print_rate(i, m, us);
      std::printf(" %5.2fx\n", blas / us);
      if (t == 0) first = us;
      if (t < gpu::kPrefillMostVariants) best = std::min(best, us);
    }
    total->blas_us += blas, total->first_us += first, total->best_us += best;
  }

  // What a padded bucket costs when it is not full.
  void print_live() {
    for (const int live : {4096, 2500, 2049}) {
      check(cudaMemcpy(live_, &live, sizeof(live), cudaMemcpyHostToDevice), "live");
      const PrefillTuning tuning =
          gpu::prefill_tunings(problem(2, 4096, 0), gpu::prefill_num_sms()).front();
      std::printf("gate_up, bucket of 4096, %d live: %.1f us\n", live, tuning_us(2, 4096, tuning));
    }
  }

  cudaStream_t stream_ = nullptr;
  std::unique_ptr<CublasLt> blas_;
  void* workspace_ = nullptr;
  bf16* x_ = nullptr;
  bf16* product_ = nullptr;  // gate_up before SiLU-mul
  bf16* blas_y_ = nullptr;
  bf16* y_ = nullptr;
  double* sums_ = nullptr;
  int32_t* live_ = nullptr;
  std::vector<bf16*> weights_[kNumLinears];
};

}  // namespace
}  // namespace encore::cuda

int main() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::printf("no GPU here\n");
    return 0;
  }
  encore::cuda::Bench().run();
  return 0;
}
