// The gated product beside cuBLASLt with timed algorithms and the SiLU-mul kernel after it, on the
// shape of a Llama-3.1-8B layer.
//
//   gated_linear_bench
//
// Captured in graphs as steps replay them, taking turns among several weights, and the candidates
// taking turns too: over a long run of products the device slows itself down. TFLOP/s of both
// products together, GB/s of weights where those dominate. `apart` is how far the first variant's
// results are from cuBLASLt's, relative, as vectors.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "cublas_lt.h"
#include "kernels/gpu/gated_linear.h"
#include "kernels/gpu/rows.h"
#include "product_bench.h"
#include "vendor.h"

namespace encore::cuda {
namespace {

using bench::check;
using bench::graph_us;
using bench::make_values;
using gpu::bf16;
using gpu::GatedLinearPlan;
using gpu::GatedLinearProblem;

constexpr int kRows[] = {96, 128, 256, 512, 1024, 2048, 4096, 8192};
constexpr int kMaxRows = 8192;
constexpr int32_t kN = 28672;
constexpr int32_t kK = 4096;
constexpr int kCopies = 4;         // of the weights
constexpr int kTurns = 5;          // of each candidate
constexpr int kRounds = 5;         // of a turn
constexpr int kWeightBound = 256;  // up to here reading weights takes longer than multiplying

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

class Bench {
 public:
  Bench() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    auto made = make_cublas_lt({});
    check(made.ok() ? Status() : made.status());
    blas_ = std::move(made).value();
    check(cudaMalloc(&workspace_, static_cast<size_t>(blas_->workspace_bytes())), "workspace");
    blas_->set_workspace(workspace_);
    x_ = make_values(size_t{kMaxRows} * kK, 1.0F);
    product_ = make_values(size_t{kMaxRows} * kN, 1.0F);
    blas_y_ = make_values(size_t{kMaxRows} * kN / 2, 1.0F);
    y_ = make_values(size_t{kMaxRows} * kN / 2, 1.0F);
    check(cudaMalloc(&sums_, 2 * sizeof(double)), "sums");
    check(cudaMalloc(&live_, sizeof(int32_t)), "live");
    for (int copy = 0; copy < kCopies; ++copy)
      weights_.push_back(make_values(size_t{kN} * kK, 0.02F));
  }

  void run() {
    for (const int m : kRows) {
      check(cudaMemcpy(live_, &m, sizeof(m), cudaMemcpyHostToDevice), "live");
      print_rows(m);
      std::fflush(stdout);
    }
    // What a padded bucket costs when it is not full.
    for (const int live : {4096, 2500, 2049}) {
      check(cudaMemcpy(live_, &live, sizeof(live), cudaMemcpyHostToDevice), "live");
      std::printf("bucket of 4096, %d live: %.1f us\n", live, variant_us(4096, 0));
    }
  }

 private:
  GatedLinearProblem problem(int m, size_t copy) const {
    GatedLinearProblem q;
    q.rows = {live_, m};
    q.n = kN, q.k = kK;
    q.w = weights_[copy], q.x = x_, q.y = y_;
    return q;
  }

  void blas_product(int m, const void* w) {
    check(blas_->multiply({m, kN, kK}, {x_, w, nullptr, product_}, stream_));
    gpu::SiluMulArgs args;
    args.rows = {live_, m};
    args.x = product_, args.y = blas_y_, args.columns = kN / 2;
    check(gpu::silu_mul(args, {stream_, true}), "silu");
  }

  double blas_us(int m) {
    const std::vector<const void*> weights(weights_.begin(), weights_.end());
    check(blas_->tune({m, kN, kK}, {x_, weights[0], nullptr, product_}, weights, stream_));
    return graph_us(stream_, kRounds,
                    [&] {
                      for (const void* w : weights) blas_product(m, w);
                    }) /
           kCopies;
  }

  double variant_us(int m, int32_t variant) {
    std::vector<GatedLinearPlan> plans(kCopies);
    for (size_t copy = 0; copy < plans.size(); ++copy) {
      check(gpu::gated_linear_plan(problem(m, copy), variant, &plans[copy]), "plan");
    }
    return graph_us(stream_, kRounds,
                    [&] {
                      for (const GatedLinearPlan& plan : plans) {
                        check(gpu::gated_linear_run(plan, {stream_, true}), "run");
                      }
                    }) /
           kCopies;
  }

  double apart(int m) {
    const size_t count = static_cast<size_t>(m) * (kN / 2);
    check(cudaMemsetAsync(y_, 0, 2 * count, stream_), "memset");
    check(cudaMemsetAsync(blas_y_, 0, 2 * count, stream_), "memset");
    check(cudaMemsetAsync(sums_, 0, 2 * sizeof(double), stream_), "memset");
    GatedLinearPlan plan;
    check(gpu::gated_linear_plan(problem(m, 0), 0, &plan), "plan");
    check(gpu::gated_linear_run(plan, {stream_, false}), "run");
    blas_product(m, weights_[0]);
    compare<<<512, 256, 0, stream_>>>(y_, blas_y_, count, sums_);
    double sums[2];
    check(cudaMemcpyAsync(sums, sums_, sizeof(sums), cudaMemcpyDeviceToHost, stream_), "copy");
    check(cudaStreamSynchronize(stream_), "compare");
    return std::sqrt(sums[0] / sums[1]);
  }

  static void print_rate(int m, double us) {
    constexpr double kWeights = static_cast<double>(kN) * kK;
    std::printf("%8.1f us %5.0f TFLOP/s", us, 2e-6 * m * kWeights / us);
    if (m <= kWeightBound) std::printf(" %5.0f GB/s", 2e-3 * kWeights / us);
  }

  void print_rows(int m) {
    const int32_t count = gpu::gated_linear_num_variants(problem(m, 0));
    std::vector<std::vector<double>> us(static_cast<size_t>(count) + 1);
    for (int turn = 0; turn < kTurns; ++turn) {
      us[0].push_back(blas_us(m));
      for (int32_t variant = 0; variant < count; ++variant) {
        us[static_cast<size_t>(variant) + 1].push_back(variant_us(m, variant));
      }
    }
    for (auto& turns : us) std::sort(turns.begin(), turns.end());
    const double blas = us[0][kTurns / 2];
    std::printf("%5d %-10s", m, "cuBLASLt");
    print_rate(m, blas);
    std::printf("  apart %.1e\n", apart(m));
    for (int32_t variant = 0; variant < count; ++variant) {
      const double mine = us[static_cast<size_t>(variant) + 1][kTurns / 2];
      std::printf("%5s variant %-2d", "", variant);
      print_rate(m, mine);
      std::printf(" %5.2fx\n", blas / mine);
    }
  }

  cudaStream_t stream_ = nullptr;
  std::unique_ptr<gpu::Blas> blas_;
  void* workspace_ = nullptr;
  bf16* x_ = nullptr;
  bf16* product_ = nullptr;  // before SiLU-mul
  bf16* blas_y_ = nullptr;
  bf16* y_ = nullptr;
  double* sums_ = nullptr;
  int32_t* live_ = nullptr;
  std::vector<bf16*> weights_;
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
