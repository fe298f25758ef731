#include "linear_timing.h"

#include <algorithm>
#include <utility>

#include "gpu_status.h"
#include "graph.h"
#include "kernels/gpu/norm.h"
#include "kernels/gpu/rows.h"
#include "noise.h"

namespace encore::gpu {
namespace {

constexpr int kRepeats = 8;     // of a product alone
constexpr int kFewRepeats = 3;  // of one that takes long
constexpr int32_t kManyRows = 1024;
constexpr size_t kMaxLayers = 8;  // in a graph: far more than a cache holds
constexpr int kGraphRepeats = 5;

int repeats_of(int32_t rows) { return rows > kManyRows ? kFewRepeats : kRepeats; }

Status status_of(LaunchError error, const char* what) {
  return gpu_status(static_cast<gpuError_t>(error), what);
}

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

GatedLinearProblem gated_problem(const LinearClass& shape, LiveRows rows) {
  GatedLinearProblem problem;
  problem.rows = rows;
  problem.n = shape.n;
  problem.k = shape.k;
  return problem;
}

SplitLinearProblem split_problem(const LinearClass& shape, LiveRows rows) {
  SplitLinearProblem problem;
  problem.rows = rows;
  problem.n = shape.n;
  problem.k = shape.k;
  problem.accumulate = shape.epilogue == lowering::Epilogue::kAdd;
  return problem;
}

Result<std::unique_ptr<LinearTiming>> LinearTiming::create(std::span<const LinearGroup> groups,
                                                           int32_t max_rows, int32_t max_logit_rows,
                                                           MemoryAccount& account, void* stream) {
  int64_t x_bytes = 0;
  int64_t y_bytes = 0;
  for (const LinearGroup& group : groups) {
    const int64_t rows = is_logits(group.shape) ? max_logit_rows : max_rows;
    const int64_t width = is_logits(group.shape) ? 4 : 2;
    x_bytes = std::max(x_bytes, rows * group.shape.k * 2);
    y_bytes = std::max(y_bytes, rows * group.shape.n * width);
  }
  std::unique_ptr<LinearTiming> timing(new LinearTiming(account, stream));
  ENCORE_ASSIGN_OR_RETURN(timing->timer_, StreamTimer::create());
  const auto allocate = [&](int64_t bytes) {
    return allocate_device(account, bytes, "operands of timed products");
  };
  const int64_t sums_bytes = int64_t{kDecodeLinearMaxRows} * kDecodeLinearMaxSumsq * 4;
  ENCORE_ASSIGN_OR_RETURN(timing->x_, allocate(x_bytes));
  ENCORE_ASSIGN_OR_RETURN(timing->y_, allocate(y_bytes));
  ENCORE_ASSIGN_OR_RETURN(timing->z_, allocate(x_bytes));
  ENCORE_ASSIGN_OR_RETURN(timing->sums_, allocate(sums_bytes));
  for (lowering::DeviceMemoryBlock* block :
       {timing->x_.get(), timing->y_.get(), timing->z_.get()}) {
    ENCORE_RETURN_IF_ERROR(
        fill_with_noise(block->data(), block->bytes(), static_cast<gpuStream_t>(stream)));
  }
  // Small positive numbers, and many rows: see all_rows().
  ENCORE_RETURN_IF_ERROR(gpu_status(
      gpuMemsetAsync(timing->sums_->data(), 0x3C, static_cast<size_t>(timing->sums_->bytes()),
                     static_cast<gpuStream_t>(stream)),
      "filling operands of timed products"));
  return timing;
}

// 0x3C3C3C3C: more than any number of rows, so all are live.
const int32_t* LinearTiming::all_rows() const {
  return reinterpret_cast<const int32_t*>(sums_->data());
}

Status LinearTiming::norm(int32_t rows, int32_t columns) {
  RmsNormArgs args;
  args.rows = {all_rows(), rows};
  args.x = y_->data();
  args.x_stride = columns;
  args.weight = x_->data();
  args.y = z_->data();
  args.y_stride = columns;
  args.hidden_size = columns;
  args.eps = 1e-5F;
  return status_of(rms_norm(args, {stream_, true}), "timing rms_norm");
}

// A product by the BLAS with what goes beside it: SiLU-mul, or the norm that the streaming kernel
// folds in.
Status LinearTiming::multiply(Blas& blas, const LinearGroup& group, size_t layer, int32_t rows) {
  const LinearClass& shape = group.shape;
  ENCORE_RETURN_IF_ERROR(blas.multiply(
      product_of(shape, rows),
      {x_->data(), group.weights[layer % group.weights.size()], group.bias, y_->data()}, stream_));
  if (shape.epilogue == lowering::Epilogue::kAdd) return norm(rows, shape.n);
  if (shape.epilogue != lowering::Epilogue::kSiluMul) return {};
  SiluMulArgs args;
  args.rows = {all_rows(), rows};
  args.x = y_->data();
  args.y = z_->data();
  args.columns = shape.n / 2;
  return status_of(silu_mul(args, {stream_, true}), "timing silu_mul");
}

DecodeLinearProblem LinearTiming::problem_of(const LinearGroup& group, size_t layer,
                                             int32_t rows) const {
  DecodeLinearProblem problem = streaming_problem(group.shape, rows);
  problem.w = group.weights[layer % group.weights.size()];
  problem.x = x_->data();
  problem.y = y_->data();
  problem.bias = group.bias;
  return problem;
}

int32_t LinearTiming::num_variants(const LinearGroup& group, int32_t rows) const {
  return decode_linear_num_variants(problem_of(group, 0, rows));
}

Status LinearTiming::stream(const LinearGroup& group, size_t layer, int32_t rows, int32_t variant,
                            Link* link) {
  DecodeLinearProblem problem = problem_of(group, layer, rows);
  auto* sums = reinterpret_cast<float*>(sums_->data());
  const bool adds = group.shape.epilogue == lowering::Epilogue::kAdd;
  if (adds) {
    problem.norm_weight = x_->data();
    problem.x_out = z_->data();
    problem.sumsq_out = sums;
  } else if (link->num_sumsq > 0) {
    problem.sumsq = sums;
    problem.num_sumsq = link->num_sumsq;
    problem.eps = 1e-5F;
  }
  DecodeLinearPlan plan;
  ENCORE_RETURN_IF_ERROR(
      status_of(decode_linear_plan(problem, variant, &plan), "planning a streaming product"));
  if (adds) link->num_sumsq = plan.num_sumsq_out;
  return status_of(decode_linear_run(plan, {stream_, true}), "timing a streaming product");
}

Status LinearTiming::tune_blas(Blas& blas, const LinearGroup& group, int32_t rows) {
  return blas.tune(product_of(group.shape, rows),
                   {x_->data(), group.weights.front(), group.bias, y_->data()}, group.weights,
                   stream_);
}

Result<float> LinearTiming::blas_us(Blas& blas, const LinearGroup& group, int32_t rows) {
  const auto run = [&](int i) { return multiply(blas, group, static_cast<size_t>(i), rows); };
  ENCORE_RETURN_IF_ERROR(run(0));
  return timer_->measure_us(static_cast<gpuStream_t>(stream_), repeats_of(rows), run);
}

Result<float> LinearTiming::streaming_us(const LinearGroup& group, int32_t rows, int32_t variant) {
  Link link;
  const auto run = [&](int i) {
    return stream(group, static_cast<size_t>(i), rows, variant, &link);
  };
  ENCORE_RETURN_IF_ERROR(run(0));
  return timer_->measure_us(static_cast<gpuStream_t>(stream_), kRepeats, run);
}

GatedLinearProblem LinearTiming::gated_problem_of(const LinearGroup& group, size_t layer,
                                                  int32_t rows) const {
  GatedLinearProblem problem = gated_problem(group.shape, {all_rows(), rows});
  problem.w = group.weights[layer % group.weights.size()];
  problem.x = x_->data();
  problem.y = y_->data();
  problem.bias = group.bias;
  return problem;
}

SplitLinearProblem LinearTiming::split_problem_of(const LinearGroup& group, size_t layer,
                                                  int32_t rows) const {
  SplitLinearProblem problem = split_problem(group.shape, {all_rows(), rows});
  problem.w = group.weights[layer % group.weights.size()];
  problem.x = x_->data();
  problem.y = y_->data();
  problem.bias = group.bias;
  return problem;
}

int32_t LinearTiming::num_tiled_variants(const LinearGroup& group, int32_t rows) const {
  if (rows <= kDecodeLinearMaxRows || is_logits(group.shape)) return 0;
  if (group.shape.epilogue == lowering::Epilogue::kSiluMul) {
    return gated_linear_num_variants(gated_problem_of(group, 0, rows));
  }
  return split_linear_num_variants(split_problem_of(group, 0, rows));
}

// A product by our kernel for many rows, with the norm that the streaming kernel would fold in.
Status LinearTiming::tile(const LinearGroup& group, size_t layer, int32_t rows, int32_t variant) {
  const Launch launch{stream_, true};
  if (group.shape.epilogue == lowering::Epilogue::kSiluMul) {
    GatedLinearPlan plan;
    ENCORE_RETURN_IF_ERROR(
        status_of(gated_linear_plan(gated_problem_of(group, layer, rows), variant, &plan),
                  "planning a gated product"));
    return status_of(gated_linear_run(plan, launch), "timing a gated product");
  }
  SplitLinearPlan plan;
  ENCORE_RETURN_IF_ERROR(
      status_of(split_linear_plan(split_problem_of(group, layer, rows), variant, &plan),
                "planning a split product"));
  ENCORE_RETURN_IF_ERROR(status_of(split_linear_run(plan, launch), "timing a split product"));
  return group.shape.epilogue == lowering::Epilogue::kAdd ? norm(rows, group.shape.n) : Status();
}

// Captured, so that the device does not wait for plans.
Result<float> LinearTiming::tiled_us(const LinearGroup& group, int32_t rows, int32_t variant) {
  const int repeats = repeats_of(rows);
  ENCORE_ASSIGN_OR_RETURN(const float us, replay_us(rows > kManyRows ? 1 : kGraphRepeats, [&] {
                            Status status;
                            for (int i = 0; i < repeats && status.ok(); ++i) {
                              status = tile(group, static_cast<size_t>(i), rows, variant);
                            }
                            return status;
                          }));
  return us / static_cast<float>(repeats);
}

Status LinearTiming::run(Blas& blas, const LinearGroup& group, size_t layer, int32_t rows,
                         int32_t variant, Link* link) {
  if (variant == kByBlas) return multiply(blas, group, layer, rows);
  if (rows > kDecodeLinearMaxRows) return tile(group, layer, rows, variant);
  return stream(group, layer, rows, variant, link);
}

Status LinearTiming::enqueue_layers(Blas& blas, std::span<const LinearGroup> groups,
                                    std::span<const int32_t> variants, int32_t rows,
                                    size_t layers) {
  Link link;
  for (size_t layer = 0; layer < layers; ++layer) {
    for (size_t i = 0; i < groups.size(); ++i) {
      ENCORE_RETURN_IF_ERROR(run(blas, groups[i], layer, rows, variants[i], &link));
      // Not into x, whose values decide how fast a device may run.
      if (i == 0) ENCORE_RETURN_IF_ERROR(attention_->run(layer, y_->data(), z_->data()));
    }
  }
  return {};
}

Status LinearTiming::prepare_layers(const ModelSpec& spec, const DeviceTraits& device,
                                    int32_t rows) {
  if (attention_ == nullptr) {
    ENCORE_ASSIGN_OR_RETURN(attention_, TimedAttention::create(spec, device, kSplitLinearMaxRows,
                                                               kMaxLayers, account_, stream_));
  }
  return attention_->plan(rows, rows <= kDecodeLinearMaxRows);
}

Result<float> LinearTiming::layer_us(Blas& blas, std::span<const LinearGroup> groups,
                                     std::span<const int32_t> variants, int32_t rows) {
  const size_t layers = std::min(kMaxLayers, groups.front().weights.size());
  ENCORE_ASSIGN_OR_RETURN(const float us, replay_us(kGraphRepeats, [&] {
                            return enqueue_layers(blas, groups, variants, rows, layers);
                          }));
  return us / static_cast<float>(layers);
}

// Of a graph that holds what `enqueue` puts on the stream, after one more replay if there are
// several.
Result<float> LinearTiming::replay_us(int replays, const std::function<Status()>& enqueue) {
  const auto stream = static_cast<gpuStream_t>(stream_);
  ENCORE_RETURN_IF_ERROR(gpu_status(gpuStreamBeginCapture(stream, gpuStreamCaptureModeThreadLocal),
                                    "capturing timed products"));
  const Status enqueued = enqueue();
  gpuGraph_t graph = nullptr;
  const Status ended = gpu_status(gpuStreamEndCapture(stream, &graph), "capturing timed products");
  if (!enqueued.ok()) {
    if (graph != nullptr) static_cast<void>(gpuGraphDestroy(graph));
    return enqueued;
  }
  ENCORE_RETURN_IF_ERROR(ended);
  auto executable = GpuGraph::create(graph, stream, account_);
  static_cast<void>(gpuGraphDestroy(graph));
  if (!executable.ok()) return executable.status();
  const auto launch = [&](int) { return (*executable)->launch(); };
  if (replays > 1) ENCORE_RETURN_IF_ERROR(launch(0));
  return timer_->measure_us(stream, replays, launch);
}

}  // namespace encore::gpu
