// Matrix products of one Llama-3.1-8B layer by cuBLASLt with timed algorithms, as steps replay
// them: captured in a graph, taking turns among several weights so that caches are as cold as in a
// step.
//
// A row is one number of rows m: TFLOP/s (and, where weights dominate, GB/s of weights) of each
// product; all 32 layers' products in ms and tokens/s, tuned and with the library's own first
// choice; how long tuning took; and the host's time to enqueue a product. Limits measured in the
// same run end the table.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "cublas_lt.h"

namespace encore::cuda {
namespace {

using gpu::Element;
using gpu::ProductOperands;
using gpu::ProductShape;
using Clock = std::chrono::steady_clock;

constexpr int kRows[] = {1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192};
constexpr int kMaxRows = 8192;
constexpr int kMaxColumns = 28672;
constexpr int kLayers = 32;
constexpr int kCopies = 4;         // of each weight
constexpr int kWeightBound = 256;  // up to here reading weights takes longer than multiplying

struct Linear {
  const char* name;
  int32_t n, k;
  bool accumulate;
};
constexpr Linear kLinears[] = {{"qkv", 6144, 4096, false},
                               {"o", 4096, 4096, true},
                               {"gate_up", 28672, 4096, false},
                               {"down", 4096, 14336, true}};
constexpr size_t kNumLinears = std::size(kLinears);

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}
void check(const Status& status) {
  if (status.ok()) return;
  std::printf("%s\n", status.to_string().c_str());
  std::exit(1);
}

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Uniform in +-range. Zeros would draw less power and run faster than real values.
__global__ void fill(__nv_bfloat16* p, size_t count, float range) {
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += stride) {
    const auto hash = static_cast<uint32_t>((i * 0x9e3779b97f4a7c15ULL) >> 32) * 0x85ebca6bU;
    p[i] = __float2bfloat16((static_cast<float>(hash) / 2147483648.0F - 1.0F) * range);
  }
}

__nv_bfloat16* make(size_t count, float range) {
  void* p = nullptr;
  check(cudaMalloc(&p, 2 * count), "allocation");
  fill<<<1024, 256>>>(static_cast<__nv_bfloat16*>(p), count, range);
  check(cudaDeviceSynchronize(), "fill");
  return static_cast<__nv_bfloat16*>(p);
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
  for (int round = 0; round < 11; ++round) {
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
    tuned_ = open();
    untuned_ = open();
    x_ = make(size_t{kMaxRows} * 14336, 1.0F);
    y_ = make(size_t{kMaxRows} * kMaxColumns, 1.0F);
    for (size_t i = 0; i < kNumLinears; ++i) {
      for (int copy = 0; copy < kCopies; ++copy) {
        weights_[i].push_back(make(size_t(kLinears[i].n) * kLinears[i].k, 0.02F));
      }
    }
  }

  void run() {
    std::printf("%6s", "m");
    for (const Linear& linear : kLinears) std::printf(" | %7s TF/s  GB/s", linear.name);
    std::printf(" | 32 layers ms  tokens/s  untuned | tune ms | host us\n");
    for (const int m : kRows) print_row(m);
    print_limits();
  }

 private:
  std::unique_ptr<gpu::Blas> open() {
    auto made = make_cublas_lt({});
    check(made.ok() ? Status() : made.status());
    std::unique_ptr<gpu::Blas> blas = std::move(made).value();
    if (workspace_ == nullptr) {
      check(cudaMalloc(&workspace_, size_t(blas->workspace_bytes())), "workspace");
    }
    blas->set_workspace(workspace_);
    return blas;
  }

  static ProductShape shape(size_t i, int m) {
    return {m, kLinears[i].n, kLinears[i].k, Element::kBF16, kLinears[i].accumulate, false};
  }

  double product_us(gpu::Blas& blas, size_t i, int m) {
    return graph_us(stream_,
                    [&] {
                      for (const void* w : weights_[i]) {
                        check(blas.multiply(shape(i, m), {x_, w, nullptr, y_}, stream_));
                      }
                    }) /
           kCopies;
  }

  double host_us(int m) {
    constexpr int kCalls = 200;
    check(cudaStreamSynchronize(stream_), "wait");
    const Clock::time_point begin = Clock::now();
    for (int call = 0; call < kCalls; ++call) {
      check(tuned_->multiply(shape(1, m), {x_, weights_[1][0], nullptr, y_}, stream_));
    }
    const double us = 1000.0 * ms_since(begin) / kCalls;
    check(cudaStreamSynchronize(stream_), "wait");
    return us;
  }

  void print_row(int m) {
    const Clock::time_point begin = Clock::now();
    for (size_t i = 0; i < kNumLinears; ++i) {
      check(tuned_->tune(shape(i, m), {x_, weights_[i][0], nullptr, y_}, weights_[i], stream_));
    }
    const double tune_ms = ms_since(begin);
    double tuned_us = 0.0;
    double untuned_us = 0.0;
    std::printf("%6d", m);
    for (size_t i = 0; i < kNumLinears; ++i) {
      const double us = product_us(*tuned_, i, m);
      tuned_us += us;
      untuned_us += product_us(*untuned_, i, m);
      const double weights = double(kLinears[i].n) * kLinears[i].k;
      std::printf(" | %12.1f", 2e-6 * m * weights / us);
      if (m <= kWeightBound) std::printf(" %5.0f", 2e-3 * weights / us);
      if (m > kWeightBound) std::printf(" %5s", "");
    }
    std::printf(" | %12.3f %9.0f %8.0f | %7.0f | %7.2f\n", 1e-3 * kLayers * tuned_us,
                1e6 * m / (kLayers * tuned_us), 1e6 * m / (kLayers * untuned_us), tune_ms,
                m <= 64 ? host_us(m) : 0.0);
    std::fflush(stdout);
  }

  void print_limits() {
    const size_t bytes = size_t{kMaxRows} * 14336 * 2;
    const double copy_us = graph_us(stream_, [&] {
      check(cudaMemcpyAsync(y_, x_, bytes, cudaMemcpyDeviceToDevice, stream_), "copy");
    });
    const ProductShape square{8192, 8192, 8192, Element::kBF16, false, false};
    const ProductOperands operands{x_, weights_[2][0], nullptr, y_};
    check(tuned_->tune(square, operands, {}, stream_));
    const double square_us =
        graph_us(stream_, [&] { check(tuned_->multiply(square, operands, stream_)); });
    std::printf(
        "limits: copy %.0f GB/s read and written; product of 8192 x 8192 x 8192 %.1f TF/s\n",
        2e-3 * double(bytes) / copy_us, 2e-6 * 8192.0 * 8192.0 * 8192.0 / square_us);
  }

  cudaStream_t stream_ = nullptr;
  void* workspace_ = nullptr;
  std::unique_ptr<gpu::Blas> tuned_;
  std::unique_ptr<gpu::Blas> untuned_;
  __nv_bfloat16* x_ = nullptr;
  __nv_bfloat16* y_ = nullptr;
  std::vector<const void*> weights_[kNumLinears];
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
