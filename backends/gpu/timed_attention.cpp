#include "timed_attention.h"

#include <algorithm>
#include <vector>

#include "gpu_status.h"
#include "noise.h"

namespace encore::gpu {
namespace {

constexpr int32_t kPageSize = 16;
constexpr int32_t kContext = 1024;  // tokens of a request that decodes
constexpr int32_t kPages = kContext / kPageSize;

int64_t bytes_of(int64_t numbers) { return numbers * static_cast<int64_t>(sizeof(int32_t)); }

}  // namespace

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
  step_.num_tokens = take(1);
  step_.num_requests = take(1);
  step_.positions = take(rows);
  step_.token_request = take(rows);
  step_.q_start = take(rows + 1);
  step_.kv_len = take(rows);
  step_.page_start = take(rows + 1);
  step_.page_ids = take(page_ids);
  slots_ = take(rows);
  const KvLayout layout = kv_layout(spec_, kPageSize, Element::kBF16);
  ENCORE_ASSIGN_OR_RETURN(pages_,
                          make(static_cast<int64_t>(max_layers) * kPages * layout.page_bytes()));
  ENCORE_RETURN_IF_ERROR(
      fill_with_noise(pages_->data(), pages_->bytes(), static_cast<gpuStream_t>(stream_)));
  kv_ = {pages_->data(), kPages, layout};
  rope_.rotary_dim = rotary_dim(spec_);
  rope_.pairing = rope_pairing(spec_);
  ENCORE_ASSIGN_OR_RETURN(rope_.memory, make(bytes_of(rope_.rotary_dim / 2)));
  ENCORE_ASSIGN_OR_RETURN(cos_sin_, make(bytes_of(rows * rope_.rotary_dim)));
  ENCORE_ASSIGN_OR_RETURN(norm_weight_, make(spec_.head_dim * 2));
  norm_.values = norm_weight_->data();
  ENCORE_ASSIGN_OR_RETURN(workspace_, make(attention_bytes(attention_shape(spec_, layout), max_rows,
                                                           max_rows, device_)));
  return {};
}

StepAttention TimedAttention::step_attention() const {
  return {device_,
          {stream_, true, device_.lanes},
          reinterpret_cast<float*>(cos_sin_->data()),
          slots_,
          workspace_->data()};
}

lowering::AttentionLayer TimedAttention::layer(size_t index) {
  const VectorWeight* norm = spec_.qk_norm ? &norm_ : nullptr;
  return {&kv_, static_cast<int32_t>(index), &spec_, norm, norm, &rope_};
}

Status TimedAttention::plan(int32_t rows, bool decode) {
  const int32_t requests = decode ? rows : 1;
  const int32_t tokens = decode ? 1 : rows;  // of a request
  const int32_t kv_len = decode ? kContext : rows;
  const int32_t pages = (kv_len + kPageSize - 1) / kPageSize;
  step_.max_tokens = rows;
  step_.max_requests = rows;
  step_.decode_only = decode;
  std::vector<int32_t> numbers(static_cast<size_t>(numbers_->bytes()) / sizeof(int32_t));
  const auto on_host = [&](const int32_t* address) {
    return numbers.data() + (address - reinterpret_cast<const int32_t*>(numbers_->data()));
  };
  *on_host(step_.num_tokens) = rows;
  *on_host(step_.num_requests) = requests;
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

  ENCORE_RETURN_IF_ERROR(step_attention().plan(layer(0), step_));
  return gpu_status(gpuStreamSynchronize(static_cast<gpuStream_t>(stream_)),
                    "planning timed attention");
}

Status TimedAttention::run(size_t index, void* qkv, void* y) {
  const StepAttention attention = step_attention();
  const lowering::AttentionLayer layer = this->layer(index);
  const auto q_size = static_cast<int32_t>(spec_.q_size());
  const lowering::Matrix from{qkv, step_.max_tokens,
                              q_size + 2 * static_cast<int32_t>(spec_.kv_size())};
  const lowering::Matrix to{y, step_.max_tokens, q_size};
  if (attention.has_rope_attention(from, layer, step_)) {
    return attention.rope_attention(from, layer, step_, to);
  }
  ENCORE_RETURN_IF_ERROR(attention.rope_kv_write(from, layer, step_));
  return attention.attention(from, layer, step_, to);
}

}  // namespace encore::gpu
