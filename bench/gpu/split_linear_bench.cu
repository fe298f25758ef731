// The split product beside cuBLASLt with timed algorithms, on shapes of Llama-3.1-8B and 3.2-1B.
//
//   split_linear_bench [ROWS]...
//
// Captured in graphs as steps replay them, taking turns among weights of more bytes than the level
// 2 cache has. GB/s of weights. The last line of a shape is a plain read of its weights.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cublas_lt.h"
#include "kernels/gpu/read_memory.h"
#include "kernels/gpu/split_linear.h"
#include "product_bench.h"
#include "sm90/device.h"
#include "vendor.h"

namespace encore::cuda {
namespace {

using bench::check;
using bench::graph_us;
using bench::make_values;
using gpu::bf16;
using gpu::SplitLinearPlan;
using gpu::SplitLinearProblem;

struct Shape {
  const char* name;
  int32_t n, k;
  bool accumulate;
};
constexpr Shape kShapes[] = {
    {"8B qkv", 6144, 4096, false}, {"8B o", 4096, 4096, true},    {"8B down", 4096, 14336, true},
    {"1B qkv", 3072, 2048, false}, {"1B down", 2048, 8192, true},
};
constexpr size_t kWeightElements = size_t{256} << 20;  // 512 MB: ten times the cache
constexpr int kMaxRows = 128;
constexpr int kRounds = 7;

class Bench {
 public:
  Bench() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    check(gpu::check_sm90(&num_sms_), "device");
    auto made = make_cublas_lt({});
    check(made.ok() ? Status() : made.status());
    blas_ = std::move(made).value();
    check(cudaMalloc(&workspace_, static_cast<size_t>(blas_->workspace_bytes())), "workspace");
    blas_->set_workspace(workspace_);
    x_ = make_values(size_t{kMaxRows} * 14336, 1.0F);
    y_ = make_values(size_t{kMaxRows} * 6144, 1.0F);
    weights_ = make_values(kWeightElements, 0.02F);
    check(cudaMalloc(&sink_, sizeof(uint32_t)), "sink");
  }

  void run(const Shape& shape, int rows) {
    std::printf("%s [%d, %d], %d rows\n", shape.name, shape.n, shape.k, rows);
    print("cuBLASLt", shape, blas_us(shape, rows));
    const int32_t count = gpu::split_linear_num_variants(problem(shape, rows, 0));
    for (int32_t variant = 0; variant < count; ++variant) {
      print(("variant " + std::to_string(variant)).c_str(), shape,
            variant_us(shape, rows, variant));
    }
    print("plain read", shape, read_us(shape));
    std::fflush(stdout);
  }

 private:
  static size_t elements(const Shape& shape) { return static_cast<size_t>(shape.n) * shape.k; }
  static size_t copies(const Shape& shape) { return kWeightElements / elements(shape); }
  const bf16* weights(const Shape& shape, size_t copy) const {
    return weights_ + copy * elements(shape);
  }

  SplitLinearProblem problem(const Shape& shape, int rows, size_t copy) const {
    SplitLinearProblem q;
    q.rows = {nullptr, rows};
    q.n = shape.n, q.k = shape.k;
    q.w = weights(shape, copy), q.x = x_, q.y = y_;
    q.accumulate = shape.accumulate;
    return q;
  }

  double blas_us(const Shape& shape, int rows) {
    const gpu::ProductShape product{rows, shape.n, shape.k, gpu::Element::kBF16, shape.accumulate};
    std::vector<const void*> all;
    for (size_t copy = 0; copy < copies(shape); ++copy) all.push_back(weights(shape, copy));
    check(blas_->tune(product, {x_, all[0], nullptr, y_}, all, stream_));
    return graph_us(stream_, kRounds,
                    [&] {
                      for (const void* w : all) {
                        check(blas_->multiply(product, {x_, w, nullptr, y_}, stream_));
                      }
                    }) /
           static_cast<double>(all.size());
  }

  double variant_us(const Shape& shape, int rows, int32_t variant) {
    std::vector<SplitLinearPlan> plans(copies(shape));
    for (size_t copy = 0; copy < plans.size(); ++copy) {
      check(gpu::split_linear_plan(problem(shape, rows, copy), variant, &plans[copy]), "plan");
    }
    return graph_us(stream_, kRounds,
                    [&] {
                      for (const SplitLinearPlan& plan : plans) {
                        check(gpu::split_linear_run(plan, {stream_, true}), "run");
                      }
                    }) /
           static_cast<double>(plans.size());
  }

  double read_us(const Shape& shape) {
    const auto bytes = static_cast<int64_t>(2 * elements(shape));
    return graph_us(stream_, kRounds,
                    [&] {
                      for (size_t copy = 0; copy < copies(shape); ++copy) {
                        check(gpu::read_memory(weights(shape, copy), bytes, num_sms_, sink_,
                                               {stream_, true}),
                              "read");
                      }
                    }) /
           static_cast<double>(copies(shape));
  }

  static void print(const char* name, const Shape& shape, double us) {
    std::printf("  %-12s %7.2f us %6.0f GB/s\n", name, us,
                2e-3 * static_cast<double>(elements(shape)) / us);
  }

  cudaStream_t stream_ = nullptr;
  int num_sms_ = 0;
  std::unique_ptr<gpu::Blas> blas_;
  void* workspace_ = nullptr;
  bf16* x_ = nullptr;
  bf16* y_ = nullptr;
  bf16* weights_ = nullptr;
  uint32_t* sink_ = nullptr;
};

}  // namespace
}  // namespace encore::cuda

int main(int argc, char** argv) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::printf("no GPU here\n");
    return 0;
  }
  encore::cuda::Bench bench;
  std::vector<int> rows;
  for (int i = 1; i < argc; ++i) rows.push_back(std::atoi(argv[i]));
  if (rows.empty()) rows = {96, 128};
  for (const int m : rows) {
    for (const auto& shape : encore::cuda::kShapes) bench.run(shape, m);
  }
  return 0;
}
