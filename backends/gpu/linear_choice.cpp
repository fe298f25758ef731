#include "linear_choice.h"

#include <algorithm>
#include <array>
#include <utility>

#include "gpu_status.h"
#include "kernels/gpu/decode_linear.h"
#include "kernels/gpu/norm.h"
#include "kernels/gpu/rows.h"
#include "stream_timer.h"

namespace encore::gpu {
namespace {

constexpr std::array<int32_t, 14> kRowGrid = {1,   8,   16,   32,   64,   96,   128,
                                              256, 512, 1024, 2048, 4096, 8192, 16384};
constexpr int kRepeats = 8;

bool is_logits(const LinearClass& shape) { return shape.epilogue == lowering::Epilogue::kLogits; }

}  // namespace

ProductShape product_of(const LinearClass& shape, int32_t rows) {
  return {rows,
          shape.n,
          shape.k,
          is_logits(shape) ? Element::kF32 : Element::kBF16,
          shape.epilogue == lowering::Epilogue::kAdd,
          shape.bias};
}

DecodeLinearProblem streaming_problem(const LinearClass& shape, int32_t rows) {
  DecodeLinearProblem problem;
  problem.m = rows;
  problem.n = shape.n;
  problem.k = shape.k;
  switch (shape.epilogue) {
    case lowering::Epilogue::kNone:
      break;
    case lowering::Epilogue::kAdd:
      problem.epilogue = DecodeEpilogue::kAdd;
      break;
    case lowering::Epilogue::kSiluMul:
      problem.epilogue = DecodeEpilogue::kSiluMul;
      break;
    case lowering::Epilogue::kLogits:
      problem.output = Element::kF32;
      break;
  }
  return problem;
}

// Operands large enough for every product that is timed, and the ways to run one.
class LinearChoice::Bench {
 public:
  static Result<std::unique_ptr<Bench>> create(std::span<const LinearGroup> groups,
                                               int32_t max_rows, int32_t max_logit_rows,
                                               MemoryAccount& account, void* stream);

  // Microseconds of one product by the BLAS, with the kernels that it needs beside it: SiLU-mul,
  // and the norm that the streaming kernel folds in.
  Result<float> blas_us(Blas& blas, const LinearGroup& group, int32_t rows);
  Result<float> streaming_us(const LinearGroup& group, int32_t rows, int32_t variant);

 private:
  explicit Bench(void* stream) : stream_(stream) {}
  const void* weight(const LinearGroup& group, int i) const {
    return group.weights[static_cast<size_t>(i) % group.weights.size()];
  }
  Status beside_blas(const LinearGroup& group, int32_t rows);

  void* stream_;
  std::unique_ptr<StreamTimer> timer_;
  std::unique_ptr<lowering::DeviceMemoryBlock> x_;
  std::unique_ptr<lowering::DeviceMemoryBlock> y_;
  std::unique_ptr<lowering::DeviceMemoryBlock> z_;     // a second output: SiLU-mul's, or the norm's
  std::unique_ptr<lowering::DeviceMemoryBlock> sums_;  // sums of squares, and a live count
};

Result<std::unique_ptr<LinearChoice::Bench>> LinearChoice::Bench::create(
    std::span<const LinearGroup> groups, int32_t max_rows, int32_t max_logit_rows,
    MemoryAccount& account, void* stream) {
  int64_t x_bytes = 0;
  int64_t y_bytes = 0;
  int64_t z_bytes = 0;
  for (const LinearGroup& group : groups) {
    const int64_t rows = is_logits(group.shape) ? max_logit_rows : max_rows;
    const int64_t width = is_logits(group.shape) ? 4 : 2;
    x_bytes = std::max(x_bytes, rows * group.shape.k * 2);
    y_bytes = std::max(y_bytes, rows * group.shape.n * width);
    if (!is_logits(group.shape)) z_bytes = std::max(z_bytes, rows * group.shape.n * 2);
  }
  std::unique_ptr<Bench> bench(new Bench(stream));
  ENCORE_ASSIGN_OR_RETURN(bench->timer_, StreamTimer::create());
  const auto allocate = [&](int64_t bytes) {
    return allocate_device(account, bytes, "operands of timed products");
  };
  const int64_t sums_bytes = int64_t{kDecodeLinearMaxRows} * kDecodeLinearMaxSumsq * 4 + 256;
  ENCORE_ASSIGN_OR_RETURN(bench->x_, allocate(x_bytes));
  ENCORE_ASSIGN_OR_RETURN(bench->y_, allocate(y_bytes));
  ENCORE_ASSIGN_OR_RETURN(bench->z_, allocate(z_bytes));
  ENCORE_ASSIGN_OR_RETURN(bench->sums_, allocate(sums_bytes));
  // Small positive numbers, whatever the element: zeros would draw less power than a step does.
  for (lowering::DeviceMemoryBlock* block :
       {bench->x_.get(), bench->y_.get(), bench->z_.get(), bench->sums_.get()}) {
    ENCORE_RETURN_IF_ERROR(
        gpu_status(gpuMemsetAsync(block->data(), 0x3C, static_cast<size_t>(block->bytes()),
                                  static_cast<gpuStream_t>(stream)),
                   "filling operands of timed products"));
  }
  return bench;
}

Status LinearChoice::Bench::beside_blas(const LinearGroup& group, int32_t rows) {
  const Launch launch{stream_, true};
  const auto* live = reinterpret_cast<const int32_t*>(sums_->data());  // huge: all rows are live
  if (group.shape.epilogue == lowering::Epilogue::kSiluMul) {
    SiluMulArgs args;
    args.rows = {live, rows};
    args.x = y_->data();
    args.y = z_->data();
    args.columns = group.shape.n / 2;
    return gpu_status(static_cast<gpuError_t>(silu_mul(args, launch)), "timing silu_mul");
  }
  if (group.shape.epilogue != lowering::Epilogue::kAdd) return {};
  RmsNormArgs args;
  args.rows = {live, rows};
  args.x = y_->data();
  args.x_stride = group.shape.n;
  args.weight = x_->data();
  args.y = z_->data();
  args.y_stride = group.shape.n;
  args.hidden_size = group.shape.n;
  args.eps = 1e-5F;
  return gpu_status(static_cast<gpuError_t>(rms_norm(args, launch)), "timing rms_norm");
}

Result<float> LinearChoice::Bench::blas_us(Blas& blas, const LinearGroup& group, int32_t rows) {
  const ProductShape shape = product_of(group.shape, rows);
  ProductOperands operands{x_->data(), group.weights.front(), group.bias, y_->data()};
  ENCORE_RETURN_IF_ERROR(blas.tune(shape, operands, group.weights, stream_));
  const auto run = [&](int i) -> Status {
    operands.w = weight(group, i);
    ENCORE_RETURN_IF_ERROR(blas.multiply(shape, operands, stream_));
    return beside_blas(group, rows);
  };
  ENCORE_RETURN_IF_ERROR(run(0));
  return timer_->measure_us(static_cast<gpuStream_t>(stream_), kRepeats, run);
}

Result<float> LinearChoice::Bench::streaming_us(const LinearGroup& group, int32_t rows,
                                                int32_t variant) {
  DecodeLinearProblem problem = streaming_problem(group.shape, rows);
  problem.x = x_->data();
  problem.y = y_->data();
  problem.bias = group.bias;
  if (group.shape.epilogue == lowering::Epilogue::kAdd) {
    problem.norm_weight = x_->data();
    problem.x_out = z_->data();
    problem.sumsq_out = reinterpret_cast<float*>(sums_->data());
  }
  std::array<DecodeLinearPlan, kRepeats> plans;
  for (int i = 0; i < kRepeats; ++i) {
    problem.w = weight(group, i);
    ENCORE_RETURN_IF_ERROR(
        gpu_status(static_cast<gpuError_t>(decode_linear_plan(problem, variant, &plans[i])),
                   "planning a streaming product"));
  }
  const auto run = [&](int i) {
    return gpu_status(static_cast<gpuError_t>(decode_linear_run(plans[i], {stream_, true})),
                      "timing a streaming product");
  };
  ENCORE_RETURN_IF_ERROR(run(0));
  return timer_->measure_us(static_cast<gpuStream_t>(stream_), kRepeats, run);
}

Result<LinearChoice::Entry> LinearChoice::tune_rows(Bench& bench,
                                                    std::span<const LinearGroup> groups,
                                                    int32_t rows, int32_t max_logit_rows) {
  std::vector<Timing> timings(groups.size());
  bool layers_stream = can_stream_;
  for (size_t i = 0; i < groups.size(); ++i) {
    const LinearGroup& group = groups[i];
    if (is_logits(group.shape) && rows > max_logit_rows) continue;
    ENCORE_ASSIGN_OR_RETURN(timings[i].blas_us, bench.blas_us(blas_, group, rows));
    DecodeLinearProblem problem = streaming_problem(group.shape, rows);
    const int32_t variants = can_stream_ ? decode_linear_num_variants(problem) : 0;
    for (int32_t variant = 0; variant < variants; ++variant) {
      ENCORE_ASSIGN_OR_RETURN(const float us, bench.streaming_us(group, rows, variant));
      if (timings[i].variant != kByBlas && us >= timings[i].streaming_us) continue;
      timings[i].variant = variant;
      timings[i].streaming_us = us;
    }
    if (variants == 0 && !is_logits(group.shape)) layers_stream = false;
  }
  float layer_gain = 0.0F;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (!is_logits(groups[i].shape)) layer_gain += timings[i].blas_us - timings[i].streaming_us;
  }
  layers_stream = layers_stream && layer_gain > 0.0F;
  Entry entry{rows, {}};
  for (size_t i = 0; i < groups.size(); ++i) {
    const bool streams =
        is_logits(groups[i].shape) ? timings[i].streaming_us < timings[i].blas_us : layers_stream;
    entry.variants.push_back(streams ? timings[i].variant : kByBlas);
  }
  return entry;
}

Status LinearChoice::tune(std::span<const LinearGroup> groups, int32_t max_rows,
                          int32_t max_logit_rows, MemoryAccount& account, void* stream) {
  std::vector<int32_t> grid;
  for (const int32_t rows : kRowGrid) {
    if (rows < max_rows) grid.push_back(rows);
  }
  grid.push_back(max_rows);
  const auto known = [&](int32_t rows) {
    return std::any_of(entries_.begin(), entries_.end(),
                       [&](const Entry& entry) { return entry.rows == rows; });
  };
  std::erase_if(grid, known);
  if (grid.empty() || groups.empty()) return {};
  ENCORE_ASSIGN_OR_RETURN(auto bench,
                          Bench::create(groups, max_rows, max_logit_rows, account, stream));
  std::vector<Entry> entries = entries_;  // as they were, if a timing fails
  for (const int32_t rows : grid) {
    ENCORE_ASSIGN_OR_RETURN(Entry entry, tune_rows(*bench, groups, rows, max_logit_rows));
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.rows < b.rows; });
  entries_ = std::move(entries);
  return gpu_status(gpuStreamSynchronize(static_cast<gpuStream_t>(stream)), "timing products");
}

int32_t LinearChoice::variant(size_t group, int32_t rows) const {
  if (rows > kDecodeLinearMaxRows) return kByBlas;
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& e) { return e.rows >= rows; });
  return entry == entries_.end() ? kByBlas : entry->variants[group];
}

}  // namespace encore::gpu
