#include "ops.h"

#include <algorithm>
#include <utility>

#include "encore/forward_batch.h"
#include "gpu_status.h"
#include "kernels/gpu/norm.h"
#include "kernels/gpu/rows.h"
#include "kernels/gpu/sample.h"
#include "linear_timing.h"

namespace encore::gpu {
namespace {

template <typename T>
const T& as(const lowering::Weight& weight) {
  return static_cast<const T&>(weight);  // every weight of these ops came from their loader
}

LiveRows live_rows(lowering::Rows rows) { return {rows.live, rows.maximum}; }

// Whether the weight-streaming kernel is what a choice of LinearChoice says.
bool streams(int32_t variant, int32_t rows) {
  return variant != kByBlas && rows <= kDecodeLinearMaxRows;
}

}  // namespace

GpuOps::GpuOps(const OpsSettings& settings, std::unique_ptr<Blas> blas, MemoryAccount& account)
    : settings_(settings),
      account_(account),
      blas_(std::move(blas)),
      choice_(*blas_, settings.device.compute_capability == 90, settings.tuning_folder) {}

Status GpuOps::embed(const lowering::Weight& table, const lowering::StepInputs& step,
                     const lowering::StepResults& results, lowering::Matrix y) {
  const auto& embedding = as<EmbeddingWeight>(table);
  deferred_ = {};  // a step that failed half way may have left one
  EmbedArgs args;
  args.tokens = {step.num_tokens, y.rows};
  args.token_ids = step.token_ids;
  args.previous_tokens = results.tokens;
  args.input_tokens = results.input_tokens;
  args.table = embedding.table;
  args.vocab_size = embedding.vocab_size;
  args.hidden_size = embedding.hidden_size;
  args.y = y.data;
  return launch_status(gpu::embed(args, launch()), "embed");
}

Status GpuOps::plan_attention(const lowering::AttentionLayer& layer,
                              const lowering::StepInputs& step) {
  return step_attention().plan(layer, step);
}

Status GpuOps::rms_norm(lowering::Matrix x, const lowering::Weight& weight, float eps,
                        lowering::Rows rows, lowering::Matrix y) {
  if (deferred_.matrix == y.data) deferred_ = {};
  RmsNormArgs args;
  args.rows = live_rows(rows);
  args.x = x.data;
  args.x_stride = x.columns;
  args.weight = as<VectorWeight>(weight).values;
  args.y = y.data;
  args.y_stride = y.columns;
  args.hidden_size = x.columns;
  args.eps = eps;
  return launch_status(gpu::rms_norm(args, launch()), "rms_norm");
}

Status GpuOps::blas_linear(lowering::Matrix x, const LinearWeight& weight, lowering::Rows rows,
                           lowering::Matrix y) {
  const bool silu = weight.shape.epilogue == lowering::Epilogue::kSiluMul;
  void* target = silu ? workspace().gate_up : y.data;
  ENCORE_RETURN_IF_ERROR(blas_->multiply(
      product_of(weight.shape, x.rows), {x.data, weight.w, weight.bias, target}, settings_.stream));
  if (!silu) return {};
  SiluMulArgs args;
  args.rows = live_rows(rows);
  args.x = target;
  args.y = y.data;
  args.columns = y.columns;
  return launch_status(silu_mul(args, launch()), "silu_mul");
}

Status GpuOps::gated_linear(lowering::Matrix x, const LinearWeight& weight, int32_t variant,
                            lowering::Rows rows, lowering::Matrix y) {
  GatedLinearProblem problem = gated_problem(weight.shape, {rows.live, x.rows});
  problem.w = weight.w;
  problem.x = x.data;
  problem.y = y.data;
  problem.bias = weight.bias;
  GatedLinearPlan plan;
  ENCORE_RETURN_IF_ERROR(launch_status(gated_linear_plan(problem, variant, &plan), "gated_linear"));
  return launch_status(gated_linear_run(plan, launch()), "gated_linear");
}

Status GpuOps::split_linear(lowering::Matrix x, const LinearWeight& weight, int32_t variant,
                            lowering::Rows rows, lowering::Matrix y) {
  SplitLinearProblem problem = split_problem(weight.shape, {rows.live, x.rows});
  problem.w = weight.w;
  problem.x = x.data;
  problem.y = y.data;
  problem.bias = weight.bias;
  SplitLinearPlan plan;
  ENCORE_RETURN_IF_ERROR(launch_status(split_linear_plan(problem, variant, &plan), "split_linear"));
  return launch_status(split_linear_run(plan, launch()), "split_linear");
}

// By the kernel of ours for many rows, or the BLAS.
Status GpuOps::tiled_linear(lowering::Matrix x, const LinearWeight& weight, int32_t variant,
                            lowering::Rows rows, lowering::Matrix y) {
  if (variant == kByBlas) return blas_linear(x, weight, rows, y);
  return weight.shape.epilogue == lowering::Epilogue::kSiluMul
             ? gated_linear(x, weight, variant, rows, y)
             : split_linear(x, weight, variant, rows, y);
}

// Fills in what all streaming products share: `problem` has the epilogue's own fields.
Status GpuOps::stream_linear(lowering::Matrix x, const LinearWeight& weight, int32_t variant,
                             DecodeLinearProblem problem, int32_t* num_sumsq_out) {
  problem.w = weight.w;
  problem.x = x.data;
  problem.bias = weight.bias;
  if (deferred_.matrix == x.data) {
    problem.sumsq = workspace().sumsq;
    problem.num_sumsq = deferred_.num_sumsq;
    problem.eps = deferred_.eps;
    deferred_ = {};  // nothing else reads that matrix; another of this address must not match
  }
  DecodeLinearPlan plan;
  ENCORE_RETURN_IF_ERROR(
      launch_status(decode_linear_plan(problem, variant, &plan), "decode_linear"));
  *num_sumsq_out = plan.num_sumsq_out;
  return launch_status(decode_linear_run(plan, launch()), "decode_linear");
}

Status GpuOps::linear(lowering::Matrix x, const lowering::Weight& weight, lowering::Epilogue,
                      lowering::Rows rows, lowering::Matrix y) {
  const auto& linear = as<LinearWeight>(weight);
  const int32_t variant = choice_.variant(linear.class_index, x.rows);
  if (!streams(variant, x.rows)) return tiled_linear(x, linear, variant, rows, y);
  DecodeLinearProblem problem = streaming_problem(linear.shape, x.rows);
  problem.y = y.data;
  int32_t num_sumsq = 0;
  return stream_linear(x, linear, variant, problem, &num_sumsq);
}

// The streaming kernel leaves y * norm and partial sums of squares; the next linear, which the same
// choice sends to the streaming kernel, divides by the root mean square.
Status GpuOps::linear_add_norm(lowering::Matrix x, const lowering::Weight& weight,
                               lowering::Rows rows, lowering::Matrix y,
                               const lowering::Weight& norm, float eps, lowering::Matrix normed) {
  const auto& linear = as<LinearWeight>(weight);
  const int32_t variant = choice_.variant(linear.class_index, x.rows);
  if (!streams(variant, x.rows)) {
    ENCORE_RETURN_IF_ERROR(tiled_linear(x, linear, variant, rows, y));
    return rms_norm(y, norm, eps, rows, normed);
  }
  DecodeLinearProblem problem = streaming_problem(linear.shape, x.rows);
  problem.y = y.data;
  problem.norm_weight = as<VectorWeight>(norm).values;
  problem.x_out = normed.data;
  problem.sumsq_out = workspace().sumsq;
  int32_t num_sumsq = 0;
  ENCORE_RETURN_IF_ERROR(stream_linear(x, linear, variant, problem, &num_sumsq));
  deferred_ = {normed.data, num_sumsq, eps};
  return {};
}

StepAttention GpuOps::step_attention() const {
  return {settings_.device, launch(), workspace().cos_sin, workspace().slots,
          workspace().attention};
}

Status GpuOps::rope_kv_write(lowering::Matrix qkv, const lowering::AttentionLayer& layer,
                             const lowering::StepInputs& step) {
  return step_attention().rope_kv_write(qkv, layer, step);
}

Status GpuOps::attention(lowering::Matrix qkv, const lowering::AttentionLayer& layer,
                         const lowering::StepInputs& step, lowering::Matrix y) {
  return step_attention().attention(qkv, layer, step, y);
}

Status GpuOps::rope_attention(lowering::Matrix qkv, const lowering::AttentionLayer& layer,
                              const lowering::StepInputs& step, lowering::Matrix y) {
  const StepAttention own = step_attention();
  if (!own.has_rope_attention(qkv, layer, step)) {
    return Ops::rope_attention(qkv, layer, step, y);
  }
  label({"attention", layer.layer});
  return own.rope_attention(qkv, layer, step, y);
}

Status GpuOps::gather_logit_rows(lowering::Matrix x, const lowering::StepInputs& step,
                                 lowering::Matrix y) {
  GatherRowsArgs args;
  args.rows = {step.num_logit_rows, y.rows};
  args.index = step.logit_rows;
  args.x = x.data;
  args.y = y.data;
  args.columns = x.columns;
  return launch_status(gather_rows(args, launch()), "gather_rows");
}

Status GpuOps::all_reduce(lowering::Matrix x, lowering::Rows rows) {
  if (collectives_ == nullptr) return Ops::all_reduce(x, rows);
  return collectives_->all_reduce(x, rows);
}

Status GpuOps::all_reduce_norm(lowering::Matrix x, lowering::Rows rows,
                               const lowering::Weight& norm, float eps, lowering::Matrix normed) {
  if (collectives_ == nullptr || !collectives_->has_all_reduce_norm(x)) {
    return Ops::all_reduce_norm(x, rows, norm, eps, normed);
  }
  return collectives_->all_reduce_norm(x, rows, as<VectorWeight>(norm).values, eps, normed);
}

Status GpuOps::all_gather(lowering::Matrix part, lowering::Rows rows, lowering::Matrix whole) {
  if (collectives_ == nullptr) return Ops::all_gather(part, rows, whole);
  return collectives_->all_gather(part, rows, whole);
}

Status GpuOps::sample(lowering::Matrix logits, const lowering::StepInputs& step,
                      const lowering::StepResults& results) {
  static_assert(sizeof(gpu::RowSampling) == sizeof(encore::RowSampling));
  static_assert(sizeof(gpu::TokenBias) == sizeof(encore::TokenBias));
  static_assert(sizeof(gpu::TokenCount) == sizeof(encore::TokenCount));
  SampleArgs args;
  args.rows = {step.num_logit_rows, logits.rows};
  args.logits = static_cast<const float*>(logits.data);
  args.logits_stride = logits.columns;
  args.vocab_size = logits.columns;
  args.num_valid_tokens = step.num_valid_tokens;
  args.params = reinterpret_cast<const gpu::RowSampling*>(step.sampling);
  args.bias_start = step.bias_start;
  args.biases = reinterpret_cast<const gpu::TokenBias*>(step.biases);
  args.history_start = step.history_start;
  args.history = reinterpret_cast<const gpu::TokenCount*>(step.history);
  args.logit_rows = step.logit_rows;
  args.token_ids = step.token_ids;
  args.input_tokens = results.input_tokens;
  args.tokens = results.tokens;
  args.row_status = results.row_status;
  args.token_logprobs = results.logprobs;
  args.top_tokens = results.top_tokens;
  args.top_logprobs = results.top_logprobs;
  args.max_logprobs = results.max_logprobs;
  args.workspace = workspace().sample;
  return launch_status(gpu::sample(args, launch()), "sample");
}

}  // namespace encore::gpu
