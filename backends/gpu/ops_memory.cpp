// GpuOps: weights and workspace.
#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "encore/sdk/host.h"
#include "gpu_status.h"
#include "kernels/gpu/sample.h"
#include "ops.h"

namespace encore::gpu {
namespace {

constexpr int64_t kAlignment = 256;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

constexpr std::array kKvElements = {Element::kF32, Element::kF16, Element::kBF16};

// The most that attention needs for any step within the request, whatever the cache's page size and
// element.
int64_t most_attention_bytes(const ModelSpec& spec, const lowering::WorkspaceRequest& request,
                             const DeviceTraits& device) {
  int64_t bytes = 0;
  for (const Element element : kKvElements) {
    const AttentionShape shape = attention_shape(spec, kv_layout(spec, 16, element));
    bytes =
        std::max(bytes, attention_bytes(shape, request.max_tokens, request.max_requests, device));
  }
  return bytes;
}

// Tokens that attention takes in any step of up to so many requests, likewise.
int32_t most_attention_tokens(const ModelSpec& spec, int32_t max_requests,
                              const DeviceTraits& device) {
  int32_t tokens = std::numeric_limits<int32_t>::max();
  for (const Element element : kKvElements) {
    const AttentionShape shape = attention_shape(spec, kv_layout(spec, 16, element));
    tokens =
        std::min(tokens, attention_max_tokens(shape, max_requests, attention_path(shape, device)));
  }
  return tokens;
}

}  // namespace

Result<WeightUploader*> GpuOps::uploader(const WeightSource& source) {
  if (uploader_ != nullptr) return uploader_.get();
  ENCORE_ASSIGN_OR_RETURN(slab_,
                          allocate_device(account_, WeightSlab::bytes(source), "the weights"));
  UploadMemory memory;
  memory.device = [this](int64_t bytes, const std::string& name) {
    return allocate_device(account_, bytes, name);
  };
  memory.host = [this](int64_t bytes, const std::string& name) {
    return allocate_page_locked(account_, bytes, name);
  };
  UploadOptions options;
  options.threads = settings_.load_threads;
  ENCORE_ASSIGN_OR_RETURN(uploader_,
                          WeightUploader::create(source, slab_->data(), memory, options));
  info_.weight_bytes += slab_->bytes();
  return uploader_.get();
}

// The class of a matrix, so that those of one class can be timed together.
size_t GpuOps::class_of(const LinearWeight& weight) {
  auto found = std::find_if(groups_.begin(), groups_.end(),
                            [&](const LinearGroup& group) { return group.shape == weight.shape; });
  if (found == groups_.end())
    found = groups_.insert(groups_.end(), {weight.shape, {}, weight.bias});
  found->weights.push_back(weight.w);
  return static_cast<size_t>(found - groups_.begin());
}

Result<std::unique_ptr<lowering::Weight>> GpuOps::load_linear(
    const WeightSource& source, std::span<const lowering::LinearPart> parts,
    lowering::Epilogue epilogue) {
  ENCORE_ASSIGN_OR_RETURN(WeightUploader * upload, uploader(source));
  auto linear = std::make_unique<LinearWeight>();
  std::vector<size_t> weights;
  std::vector<size_t> biases;
  for (const lowering::LinearPart& part : parts) {
    const WeightInfo& weight = source.weights()[part.weight];
    linear->shape.n += static_cast<int32_t>(weight.shape[0]);
    linear->shape.k = static_cast<int32_t>(weight.shape[1]);
    weights.push_back(part.weight);
    if (part.bias >= 0) biases.push_back(static_cast<size_t>(part.bias));
  }
  linear->shape.epilogue = epilogue;
  linear->shape.bias = !biases.empty();
  ENCORE_ASSIGN_OR_RETURN(linear->w, upload->enqueue(weights));
  if (!biases.empty()) {
    ENCORE_ASSIGN_OR_RETURN(linear->bias, upload->enqueue(biases));
  }
  linear->class_index = class_of(*linear);
  info_.step_weight_bytes += int64_t{linear->shape.n} * linear->shape.k * 2;
  return std::unique_ptr<lowering::Weight>(std::move(linear));
}

Result<std::unique_ptr<lowering::Weight>> GpuOps::load_embedding(const WeightSource& source,
                                                                 size_t weight) {
  ENCORE_ASSIGN_OR_RETURN(WeightUploader * upload, uploader(source));
  const WeightInfo& info = source.weights()[weight];
  auto embedding = std::make_unique<EmbeddingWeight>();
  ENCORE_ASSIGN_OR_RETURN(embedding->table, upload->enqueue({&weight, 1}));
  embedding->vocab_size = static_cast<int32_t>(info.shape[0]);
  embedding->hidden_size = static_cast<int32_t>(info.shape[1]);
  return std::unique_ptr<lowering::Weight>(std::move(embedding));
}

Result<std::unique_ptr<lowering::Weight>> GpuOps::load_norm(const WeightSource& source,
                                                            size_t weight) {
  ENCORE_ASSIGN_OR_RETURN(WeightUploader * upload, uploader(source));
  auto vector = std::make_unique<VectorWeight>();
  ENCORE_ASSIGN_OR_RETURN(vector->values, upload->enqueue({&weight, 1}));
  info_.step_weight_bytes += source.weights()[weight].shape[0] * 2;
  return std::unique_ptr<lowering::Weight>(std::move(vector));
}

Result<std::unique_ptr<lowering::Weight>> GpuOps::load_rope(const ModelSpec& spec) {
  const std::vector<float>& inv_freq = spec.rope.inv_freq;
  const auto bytes = static_cast<int64_t>(inv_freq.size() * sizeof(float));
  auto rope = std::make_unique<RopeWeight>();
  ENCORE_ASSIGN_OR_RETURN(rope->memory, allocate_device(account_, bytes, "rotary frequencies"));
  ENCORE_RETURN_IF_ERROR(
      gpu_status(gpuMemcpyAsync(rope->memory->data(), inv_freq.data(), static_cast<size_t>(bytes),
                                gpuMemcpyHostToDevice, settings_.stream),
                 "copying rotary frequencies"));
  ENCORE_RETURN_IF_ERROR(
      gpu_status(gpuStreamSynchronize(settings_.stream), "copying rotary frequencies"));
  rope->rotary_dim = rotary_dim(spec);
  rope->attention_scale = spec.rope.attention_scale;
  rope->pairing = rope_pairing(spec);
  info_.weight_bytes += bytes;
  return std::unique_ptr<lowering::Weight>(std::move(rope));
}

Status GpuOps::finish_loading() {
  if (uploader_ == nullptr) return {};
  Status finished = uploader_->finish();
  uploader_.reset();
  return finished;
}

Result<int64_t> GpuOps::reserve_workspace(const ModelSpec& spec,
                                          const lowering::WorkspaceRequest& request,
                                          int64_t* added_bytes) {
  *added_bytes = 0;
  if (request.max_requests > kAttentionMaxRequests) {
    return invalid_argument("max_requests is " + std::to_string(request.max_requests) +
                            "; a GPU takes up to " + std::to_string(kAttentionMaxRequests) +
                            " in a step: lower scheduler.max_running_requests");
  }
  const int32_t most_tokens = most_attention_tokens(spec, request.max_requests, settings_.device);
  if (request.max_tokens > most_tokens) {
    return invalid_argument(
        "max_tokens is " + std::to_string(request.max_tokens) + "; attention takes up to " +
        std::to_string(most_tokens) + " in a step, with max_requests " +
        std::to_string(request.max_requests) + ": lower scheduler.max_tokens_per_step");
  }
  if (blas_workspace_ == nullptr) {
    ENCORE_ASSIGN_OR_RETURN(
        blas_workspace_, allocate_device(account_, blas_->workspace_bytes(), "the BLAS workspace"));
    blas_->set_workspace(blas_workspace_->data());
    *added_bytes += blas_workspace_->bytes();
  }
  ENCORE_RETURN_IF_ERROR(choice_.tune(groups_, spec, settings_.device, request.max_tokens,
                                      request.max_logit_rows, account_, settings_.stream));
  for (const Status& saved : {blas_->save_tuning(), choice_.save()}) {
    if (saved.ok()) continue;
    sdk::log(sdk::LogLevel::kWarn, "timed products are not kept: " + saved.message());
  }

  const int64_t tokens = request.max_tokens;
  const int64_t rotary = rotary_dim(spec);
  Workspace made;
  int64_t total = 0;
  const auto place = [&](int64_t bytes) {
    const int64_t offset = total;
    total += aligned(bytes);
    return offset;
  };
  const int64_t cos_sin = place(tokens * rotary * 4);
  const int64_t slots = place(tokens * 4);
  const int64_t gate_up = place(tokens * 2 * spec.intermediate_size * 2);
  const int64_t sumsq = place(int64_t{kDecodeLinearMaxRows} * kDecodeLinearMaxSumsq * 4);
  const int64_t attention = place(most_attention_bytes(spec, request, settings_.device));
  const int64_t sample = place(
      static_cast<int64_t>(sample_workspace_bytes(request.max_logit_rows, request.logit_columns)));
  if (total > workspace_bytes_) {
    ENCORE_ASSIGN_OR_RETURN(made.block, allocate_device(account_, total, "the workspace"));
    std::byte* base = made.block->data();
    ENCORE_RETURN_IF_ERROR(
        gpu_status(gpuMemsetAsync(base, 0, static_cast<size_t>(total), settings_.stream),
                   "clearing the workspace"));
    made.cos_sin = reinterpret_cast<float*>(base + cos_sin);
    made.slots = reinterpret_cast<int32_t*>(base + slots);
    made.gate_up = base + gate_up;
    made.sumsq = reinterpret_cast<float*>(base + sumsq);
    made.attention = base + attention;
    made.sample = base + sample;
    workspaces_.push_back(std::move(made));
    workspace_bytes_ = total;
    *added_bytes += total;
  }
  return workspace_bytes_ + blas_workspace_->bytes();
}

Status GpuOps::fill_workspace(uint8_t value) {
  for (const Workspace& made : workspaces_) {
    ENCORE_RETURN_IF_ERROR(
        gpu_status(gpuMemsetAsync(made.block->data(), value,
                                  static_cast<size_t>(made.block->bytes()), settings_.stream),
                   "filling the workspace"));
  }
  return {};
}

}  // namespace encore::gpu
