#include "timed_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gpu_status.h"
#include "noise.h"

namespace encore::gpu {
namespace {

constexpr int32_t kPageSize = 16;
constexpr int32_t kContext = 1024;  // tokens of a request that decodes
constexpr int32_t kPages = kContext / kPageSize;

Status status_of(LaunchError error, const char* what) {
  return gpu_status(static_cast<gpuError_t>(error), what);
}

int64_t bytes_of(int64_t numbers) { return numbers * static_cast<int64_t>(sizeof(int32_t)); }

}  // namespace

TimedAttention::TimedAttention(const ModelSpec& spec, const DeviceTraits& device,
                               MemoryAccount& account, void* stream)
    : device_(device),
      account_(account),
      stream_(stream),
      shape_{static_cast<int32_t>(spec.num_heads),
             {Element::kBF16, static_cast<int32_t>(spec.num_kv_heads),
              static_cast<int32_t>(spec.head_dim), kPageSize},
             Element::kBF16},
      path_(attention_path(shape_, device)),
      pairing_(spec.rope.style == RopeStyle::kHalfSplit ? RopePairing::kHalfSplit
                                                        : RopePairing::kAdjacentPairs),
      rotary_dim_(static_cast<int32_t>(2 * spec.rope.inv_freq.size())),
      norms_(spec.qk_norm),
      norm_eps_(spec.rms_norm_eps) {}

Result<std::unique_ptr<TimedAttention>> TimedAttention::create(const ModelSpec& spec,
                                                               const DeviceTraits& device,
                                                               int32_t max_rows, size_t max_layers,
                                                               MemoryAccount& account,
                                                               void* stream) {
  std::unique_ptr<TimedAttention> made(new TimedAttention(spec, device, account, stream));
  ENCORE_RETURN_IF_ERROR(made->allocate(max_rows, max_layers));
  return made;
}

Status TimedAttention::allocate(int32_t max_rows, size_t max_layers) {
  const auto make = [&](int64_t bytes) -> Result<std::unique_ptr<lowering::DeviceMemoryBlock>> {
    ENCORE_ASSIGN_OR_RETURN(auto block, allocate_device(account_, std::max<int64_t>(bytes, 4),
                                                        "operands of timed products"));
    ENCORE_RETURN_IF_ERROR(
        gpu_status(gpuMemsetAsync(block->data(), 0, static_cast<size_t>(block->bytes()),
                                  static_cast<gpuStream_t>(stream_)),
                   "clearing operands of timed products"));
    return block;
  };
  const int64_t rows = max_rows;
  const int64_t page_ids = rows * kPages;
  ENCORE_ASSIGN_OR_RETURN(numbers_, make(bytes_of(2 + 6 * (rows + 1) + page_ids)));
  auto* next = reinterpret_cast<int32_t*>(numbers_->data());
  const auto take = [&](int64_t count) {
    int32_t* taken = next;
    next += count;
    return taken;
  };
  step_.live = take(2);
  step_.positions = take(rows);
  step_.token_request = take(rows);
  step_.q_start = take(rows + 1);
  step_.kv_len = take(rows);
  step_.page_start = take(rows + 1);
  step_.page_ids = take(page_ids);
  step_.slots = take(rows);
  ENCORE_ASSIGN_OR_RETURN(cos_sin_, make(bytes_of(rows * rotary_dim_ + rotary_dim_)));
  ENCORE_ASSIGN_OR_RETURN(norm_weight_, make(int64_t{shape_.kv.head_dim} * 2));
  ENCORE_ASSIGN_OR_RETURN(pages_,
                          make(static_cast<int64_t>(max_layers) * kPages * shape_.kv.page_bytes()));
  ENCORE_RETURN_IF_ERROR(
      fill_with_noise(pages_->data(), pages_->bytes(), static_cast<gpuStream_t>(stream_)));
  size_t workspace = 0;
  for (const bool decode : {false, true}) {
    workspace = std::max(workspace,
                         attention_workspace_bytes(
                             shape_, {max_rows, max_rows, decode, device_.num_processors}, path_));
  }
  ENCORE_ASSIGN_OR_RETURN(workspace_, make(static_cast<int64_t>(workspace)));
  return {};
}

Status TimedAttention::plan(int32_t rows, bool decode) {
  const int32_t requests = decode ? rows : 1;
  const int32_t tokens = decode ? 1 : rows;  // of a request
  const int32_t kv_len = decode ? kContext : rows;
  const int32_t pages = (kv_len + kPageSize - 1) / kPageSize;
  bounds_ = {rows, rows, decode, device_.num_processors};
  std::vector<int32_t> numbers(static_cast<size_t>(numbers_->bytes()) / sizeof(int32_t));
  const auto on_host = [&](const int32_t* address) {
    return numbers.data() + (address - reinterpret_cast<const int32_t*>(numbers_->data()));
  };
  on_host(step_.live)[0] = rows;
  on_host(step_.live)[1] = requests;
  for (int32_t r = 0; r < requests; ++r) {
    for (int32_t t = 0; t < tokens; ++t) {
      on_host(step_.positions)[r * tokens + t] = kv_len - tokens + t;
      on_host(step_.token_request)[r * tokens + t] = r;
    }
    for (int32_t p = 0; p < pages; ++p) on_host(step_.page_ids)[r * pages + p] = p;
    on_host(step_.kv_len)[r] = kv_len;
    on_host(step_.q_start)[r + 1] = (r + 1) * tokens;
    on_host(step_.page_start)[r + 1] = (r + 1) * pages;
  }
  ENCORE_RETURN_IF_ERROR(gpu_status(
      gpuMemcpyAsync(numbers_->data(), numbers.data(), static_cast<size_t>(numbers_->bytes()),
                     gpuMemcpyHostToDevice, static_cast<gpuStream_t>(stream_)),
      "planning timed attention"));

  StepTablesArgs tables;
  tables.tokens = {step_.live, rows};
  tables.positions = step_.positions;
  tables.token_request = step_.token_request;
  tables.page_start = step_.page_start;
  tables.page_ids = step_.page_ids;
  tables.inv_freq = reinterpret_cast<const float*>(cos_sin_->data());  // zeros: no turns
  tables.rotary_dim = rotary_dim_;
  tables.page_size = kPageSize;
  tables.num_pages = kPages;
  tables.cos_sin = reinterpret_cast<float*>(cos_sin_->data()) + rotary_dim_;
  tables.slots = step_.slots;
  ENCORE_RETURN_IF_ERROR(status_of(step_tables(tables, launch()), "planning timed attention"));
  ENCORE_RETURN_IF_ERROR(status_of(attention_plan(shape_, bounds_, path_,
                                                  {step_.live + 1, step_.q_start, step_.kv_len,
                                                   step_.page_start, step_.page_ids},
                                                  workspace_->data(), launch()),
                                   "planning timed attention"));
  return gpu_status(gpuStreamSynchronize(static_cast<gpuStream_t>(stream_)),
                    "planning timed attention");
}

Status TimedAttention::run(size_t layer, void* qkv, void* y) {
  const KvLayout& kv = shape_.kv;
  const int64_t q_size = int64_t{shape_.num_heads} * kv.head_dim;
  RopeKvArgs rope;
  rope.tokens = {step_.live, bounds_.max_tokens};
  rope.qkv = qkv;
  rope.qkv_stride = q_size + 2 * int64_t{kv.num_kv_heads} * kv.head_dim;
  rope.q_norm_weight = norms_ ? norm_weight_->data() : nullptr;
  rope.k_norm_weight = rope.q_norm_weight;
  rope.norm_eps = norm_eps_;
  rope.pairing = pairing_;
  rope.num_heads = shape_.num_heads;
  rope.rotary_dim = rotary_dim_;
  rope.cos_sin = reinterpret_cast<const float*>(cos_sin_->data()) + rotary_dim_;
  rope.slots = step_.slots;
  rope.kv = {pages_->data() + static_cast<int64_t>(layer) * kPages * kv.page_bytes(), kPages, kv};
  AttentionArgs args;
  args.inputs = {step_.live + 1, step_.q_start, step_.kv_len, step_.page_start, step_.page_ids};
  args.kv = rope.kv;
  args.q = qkv;
  args.q_stride = rope.qkv_stride;
  args.y = y;
  args.y_stride = q_size;
  args.scale = 1.0F / std::sqrt(static_cast<float>(kv.head_dim));
  args.workspace = workspace_->data();
  if (rope_attention_serves(shape_, bounds_, path_, rope)) {
    return status_of(rope_attention_run(shape_, bounds_, path_, rope, args, launch()),
                     "timing rope_attention");
  }
  ENCORE_RETURN_IF_ERROR(status_of(rope_kv_write(rope, launch()), "timing rope_kv_write"));
  return status_of(attention_run(shape_, bounds_, path_, args, launch()), "timing attention");
}

}  // namespace encore::gpu
