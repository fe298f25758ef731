#include "cpu_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "collectives.h"
#include "kernels/cpu/embedding.h"
#include "kernels/cpu/gather.h"
#include "kernels/cpu/linear.h"

namespace encore::cpu {
namespace {

struct ResolveArgs {
  const int32_t* num_tokens;
  const int32_t* token_ids;
  const int32_t* previous_tokens;
  int32_t* input_tokens;
};

// Replaces "the token that row k sampled" by that token. A few integers: one worker does it.
void resolve_tokens(const ResolveArgs& args, const kernels::Worker& worker) {
  if (worker.index != 0) return;
  for (int32_t i = 0; i < *args.num_tokens; ++i) {
    const int32_t id = args.token_ids[i];
    args.input_tokens[i] = id >= 0 ? id : args.previous_tokens[-1 - id];
  }
}

const float* input(const lowering::Matrix& matrix) {
  return static_cast<const float*>(matrix.data);
}
float* output(const lowering::Matrix& matrix) { return static_cast<float*>(matrix.data); }

template <typename T>
const T& as(const lowering::Weight& weight) {
  return static_cast<const T&>(weight);  // every weight of these ops came from their loader
}

const float* values_of(const lowering::Weight* weight) {
  return weight == nullptr ? nullptr : as<VectorWeight>(*weight).values.data();
}

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

kernels::Epilogue kernel_epilogue(lowering::Epilogue epilogue) {
  switch (epilogue) {
    case lowering::Epilogue::kNone:
    case lowering::Epilogue::kLogits:
      return kernels::Epilogue::kStore;
    case lowering::Epilogue::kAdd:
      return kernels::Epilogue::kAdd;
    case lowering::Epilogue::kSiluMul:
      return kernels::Epilogue::kSiluMul;
  }
  return kernels::Epilogue::kStore;
}

template <typename T>
Result<std::unique_ptr<lowering::Weight>> as_weight(Result<std::unique_ptr<T>> loaded) {
  if (!loaded.ok()) return loaded.status();
  return std::unique_ptr<lowering::Weight>(std::move(loaded).value());
}

}  // namespace

CpuOps::CpuOps(ThreadTeam& team, kernels::IsaLevel level, RankPlace place)
    : team_(team),
      level_(level),
      place_(std::move(place)),
      loader_(team),
      rms_norm_(kernels::rms_norm_kernel(level)),
      rope_kv_(kernels::rope_kv_kernel(level)),
      attention_(kernels::attention_kernel(level)),
      sample_(kernels::sample_kernel(level)) {}

Result<int64_t> CpuOps::reserve_workspace(const ModelSpec& spec,
                                          const lowering::WorkspaceRequest& request,
                                          int64_t* added_bytes) {
  const kernels::KvLayout layout{kernels::WeightType::kF32, static_cast<int32_t>(spec.num_kv_heads),
                                 static_cast<int32_t>(spec.head_dim), 16};
  const auto num_heads = static_cast<int32_t>(spec.num_heads);
  const int64_t linear = aligned(static_cast<int64_t>(kernels::linear_workspace_bytes(
      loader_.linear_types(), request.max_tokens, loader_.max_inputs())));
  const int64_t attention = aligned(
      kernels::attention_workspace_bytes(layout, num_heads, request.max_context, team_.size()));
  const auto rotary = static_cast<int64_t>(2 * spec.rope.inv_freq.size());
  const int64_t cos_sin = aligned(request.max_tokens * rotary * 4);
  const int64_t slots = aligned(int64_t{request.max_tokens} * 4);
  const int64_t total = linear + attention + cos_sin + slots;
  *added_bytes = 0;
  const int64_t scratch_before = team_.scratch_bytes();
  team_.reserve_scratch(
      std::max({kernels::linear_scratch_bytes(loader_.linear_types(), loader_.max_inputs()),
                kernels::attention_scratch_bytes(layout, num_heads),
                kernels::sample_scratch_bytes(static_cast<int32_t>(spec.vocab_size))}));
  *added_bytes += team_.scratch_bytes() - scratch_before;
  if (total > workspace_needed_bytes_) {
    ENCORE_ASSIGN_OR_RETURN(auto block, MappedBlock::create(total, "workspace"));
    std::byte* base = block->data();
    Workspace workspace;
    workspace.linear = base;
    workspace.attention = reinterpret_cast<float*>(base + linear);
    workspace.attention_bytes = attention;
    workspace.cos_sin = reinterpret_cast<float*>(base + linear + attention);
    workspace.slots = reinterpret_cast<int32_t*>(base + linear + attention + cos_sin);
    workspace.block = std::move(block);
    workspaces_.push_back(std::move(workspace));
    workspace_needed_bytes_ = total;
    *added_bytes += total;
  }
  return total + team_.scratch_bytes();
}

void CpuOps::fill_workspace(uint8_t value) {
  for (const Workspace& workspace : workspaces_) {
    std::memset(workspace.block->data(), value, static_cast<size_t>(workspace.block->bytes()));
  }
}

Result<std::unique_ptr<lowering::Weight>> CpuOps::load_linear(
    const WeightSource& source, std::span<const lowering::LinearPart> parts, lowering::Epilogue) {
  return as_weight(loader_.linear(source, parts));
}

Result<std::unique_ptr<lowering::Weight>> CpuOps::load_embedding(const WeightSource& source,
                                                                 size_t weight) {
  return as_weight(loader_.embedding(source, weight));
}

Result<std::unique_ptr<lowering::Weight>> CpuOps::load_norm(const WeightSource& source,
                                                            size_t weight) {
  return as_weight(loader_.vector(source, weight));
}

Result<std::unique_ptr<lowering::Weight>> CpuOps::load_rope(const ModelSpec& spec) {
  auto rope = std::make_unique<RopeWeight>();
  rope->inv_freq = spec.rope.inv_freq;
  rope->attention_scale = spec.rope.attention_scale;
  rope->pairing = spec.rope.style == RopeStyle::kHalfSplit ? kernels::RopePairing::kHalfSplit
                                                           : kernels::RopePairing::kAdjacentPairs;
  return std::unique_ptr<lowering::Weight>(std::move(rope));
}

Status CpuOps::embed(const lowering::Weight& table, const lowering::StepInputs& step,
                     const lowering::StepResults& results, lowering::Matrix y) {
  emit<ResolveArgs>(resolve_tokens,
                    {step.num_tokens, step.token_ids, results.tokens, results.input_tokens});
  const auto& embedding = as<EmbeddingWeight>(table);
  kernels::EmbeddingArgs args{};
  args.num_tokens = step.num_tokens;
  args.token_ids = results.input_tokens;
  args.weight = embedding.rows;
  args.row_bytes = embedding.row_bytes;
  args.type = embedding.type;
  args.vocab_size = embedding.vocab_size;
  args.hidden_size = embedding.hidden_size;
  args.y = output(y);
  args.y_stride = y.columns;
  emit(kernels::embedding, args);
  return {};
}

Status CpuOps::plan_attention(const lowering::AttentionLayer& layer,
                              const lowering::StepInputs& step) {
  const auto& kv = *static_cast<const KvDescription*>(layer.kv);
  const auto& rope = as<RopeWeight>(*layer.rope);
  const Workspace& workspace = workspaces_.back();
  kernels::StepTablesArgs args{};
  args.num_tokens = step.num_tokens;
  args.num_requests = step.num_requests;
  args.positions = step.positions;
  args.q_start = step.q_start;
  args.page_start = step.page_start;
  args.page_ids = step.page_ids;
  args.inv_freq = rope.inv_freq.data();
  args.attention_scale = rope.attention_scale;
  args.rotary_dim = static_cast<int32_t>(2 * rope.inv_freq.size());
  args.page_size = kv.layout.page_size;
  args.num_pages = kv.num_pages;
  args.cos_sin = workspace.cos_sin;
  args.slots = workspace.slots;
  emit(kernels::step_tables, args);
  return {};
}

Status CpuOps::rms_norm(lowering::Matrix x, const lowering::Weight& weight, float eps,
                        lowering::Rows rows, lowering::Matrix y) {
  kernels::RmsNormArgs args{};
  args.num_rows = rows.live;
  args.x = input(x);
  args.x_stride = x.columns;
  args.weight = values_of(&weight);
  args.y = output(y);
  args.y_stride = y.columns;
  args.hidden_size = x.columns;
  args.eps = eps;
  emit(rms_norm_, args);
  return {};
}

Status CpuOps::linear(lowering::Matrix x, const lowering::Weight& weight,
                      lowering::Epilogue epilogue, lowering::Rows rows, lowering::Matrix y) {
  const auto& linear = as<LinearWeight>(weight);
  kernels::LinearArgs args;
  args.x = input(x);
  args.x_stride = x.columns;
  args.num_rows = rows.live;
  args.max_rows = rows.maximum;
  args.num_parts = static_cast<int32_t>(linear.parts.size());
  std::copy(linear.parts.begin(), linear.parts.end(), args.parts.begin());
  args.y = output(y);
  args.y_stride = y.columns;
  args.epilogue = kernel_epilogue(epilogue);
  args.workspace = workspaces_.back().linear;
  args.level = level_;
  emit(kernels::linear, args);
  return {};
}

kernels::KvPages CpuOps::layer_pages(const lowering::AttentionLayer& layer) const {
  const auto& kv = *static_cast<const KvDescription*>(layer.kv);
  return {kv.pages + layer.layer * kv.layer_bytes(), kv.layout.page_bytes(), kv.layout};
}

Status CpuOps::rope_kv_write(lowering::Matrix qkv, const lowering::AttentionLayer& layer,
                             const lowering::StepInputs& step) {
  const auto& rope = as<RopeWeight>(*layer.rope);
  const Workspace& workspace = workspaces_.back();
  kernels::RopeKvArgs args{};
  args.num_tokens = step.num_tokens;
  args.qkv = input(qkv);
  args.qkv_stride = qkv.columns;
  args.q_out = output(qkv);
  args.q_out_stride = qkv.columns;
  args.q_norm_weight = values_of(layer.q_norm);
  args.k_norm_weight = values_of(layer.k_norm);
  args.norm_eps = layer.spec->rms_norm_eps;
  args.pairing = rope.pairing;
  args.num_heads = static_cast<int32_t>(layer.spec->num_heads);
  args.rotary_dim = static_cast<int32_t>(2 * rope.inv_freq.size());
  args.cos_sin = workspace.cos_sin;
  args.slots = workspace.slots;
  args.kv = layer_pages(layer);
  emit(rope_kv_, args);
  return {};
}

Status CpuOps::attention(lowering::Matrix qkv, const lowering::AttentionLayer& layer,
                         const lowering::StepInputs& step, lowering::Matrix y) {
  const Workspace& workspace = workspaces_.back();
  kernels::AttentionArgs args{};
  args.num_requests = step.num_requests;
  args.q_start = step.q_start;
  args.kv_len = step.kv_len;
  args.page_start = step.page_start;
  args.page_ids = step.page_ids;
  args.q = input(qkv);
  args.q_stride = qkv.columns;
  args.out = output(y);
  args.out_stride = y.columns;
  args.kv = layer_pages(layer);
  args.num_heads = static_cast<int32_t>(layer.spec->num_heads);
  args.scale = 1.0F / std::sqrt(static_cast<float>(layer.spec->head_dim));
  args.workspace = workspace.attention;
  args.workspace_bytes = workspace.attention_bytes;
  emit(attention_, args);
  return {};
}

Status CpuOps::gather_logit_rows(lowering::Matrix x, const lowering::StepInputs& step,
                                 lowering::Matrix y) {
  kernels::GatherRowsArgs args{};
  args.num_rows = step.num_logit_rows;
  args.rows = step.logit_rows;
  args.x = input(x);
  args.x_stride = x.columns;
  args.y = output(y);
  args.y_stride = y.columns;
  args.columns = x.columns;
  emit(kernels::gather_rows, args);
  return {};
}

Status CpuOps::all_reduce(lowering::Matrix x, lowering::Rows rows) {
  RankMeeting* meeting = place_.meeting.get();
  emit<MeetArgs>(meet, {meeting, place_.rank, x.data});
  emit<SumRanksArgs>(sum_ranks, {meeting, place_.rank, rows.live, x.columns});
  emit<MeetArgs>(meet, {meeting, place_.rank, nullptr});  // all have read
  return {};
}

Status CpuOps::all_gather(lowering::Matrix part, lowering::Rows rows, lowering::Matrix whole) {
  RankMeeting* meeting = place_.meeting.get();
  emit<MeetArgs>(meet, {meeting, place_.rank, part.data});
  emit<GatherRanksArgs>(gather_ranks, {meeting, rows.live, part.columns, output(whole)});
  emit<MeetArgs>(meet, {meeting, place_.rank, nullptr});
  return {};
}

Status CpuOps::sample(lowering::Matrix logits, const lowering::StepInputs& step,
                      const lowering::StepResults& results) {
  kernels::SampleArgs args{};
  args.num_rows = step.num_logit_rows;
  args.logits = input(logits);
  args.logits_stride = logits.columns;
  args.num_valid_tokens = step.num_valid_tokens;
  static_assert(sizeof(kernels::RowSampling) == sizeof(RowSampling));
  args.params = reinterpret_cast<const kernels::RowSampling*>(step.sampling);
  args.bias_start = step.bias_start;
  args.biases = reinterpret_cast<const kernels::TokenBias*>(step.biases);
  args.history_start = step.history_start;
  args.history = reinterpret_cast<const kernels::TokenCount*>(step.history);
  args.logit_rows = step.logit_rows;
  args.token_ids = step.token_ids;
  args.input_tokens = results.input_tokens;
  args.tokens = results.tokens;
  args.row_status = results.row_status;
  args.token_logprobs = results.logprobs;
  args.top_tokens = results.top_tokens;
  args.top_logprobs = results.top_logprobs;
  args.max_logprobs = results.max_logprobs;
  emit(sample_, args);
  return {};
}

}  // namespace encore::cpu
