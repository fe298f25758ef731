#include "toy_weights.h"

#include <algorithm>
#include <utility>

namespace acme {
namespace {

using encore::WeightInfo;
using encore::WeightSource;
using kernels::WeightType;

// The kernels' numbers are the host's.
WeightType type_of(const WeightInfo& weight) { return static_cast<WeightType>(weight.dtype); }

// The whole tensor on the host: where the file is mapped, or read into `buffer`.
Result<const std::byte*> on_host(const WeightSource& source, size_t index,
                                 std::vector<std::byte>& buffer) {
  if (const std::byte* mapped = source.map(index); mapped != nullptr) return mapped;
  buffer.resize(static_cast<size_t>(source.weights()[index].bytes));
  ENCORE_RETURN_IF_ERROR(source.read(index, 0, buffer));
  return static_cast<const std::byte*>(buffer.data());
}

}  // namespace

Result<DeviceArray> WeightLoader::upload(const void* host, int64_t bytes) {
  ENCORE_ASSIGN_OR_RETURN(DeviceArray array, memory_.allocate(bytes, "weights"));
  ENCORE_RETURN_IF_ERROR(
      memory_.copy_in(array->data(), static_cast<const std::byte*>(host), bytes));
  info_.weight_bytes += array->bytes();
  return array;
}

Result<DeviceArray> WeightLoader::upload_floats(const WeightSource& source, size_t index) {
  const WeightInfo& weight = source.weights()[index];
  std::vector<std::byte> buffer;
  ENCORE_ASSIGN_OR_RETURN(const std::byte* raw, on_host(source, index, buffer));
  std::vector<float> values(static_cast<size_t>(weight.shape[0]));
  kernels::dequantize_row(type_of(weight), raw, weight.shape[0], values.data());
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
  info_.step_weight_bytes += bytes;
  return upload(values.data(), bytes);
}

Result<std::unique_ptr<LinearWeight>> WeightLoader::linear(
    const WeightSource& source, std::span<const lowering::LinearPart> parts) {
  auto linear = std::make_unique<LinearWeight>();
  int64_t column = 0;
  for (const lowering::LinearPart& part : parts) {
    const WeightInfo& weight = source.weights()[part.weight];
    const WeightType type = type_of(weight);
    kernels::LinearPart loaded;
    loaded.weight = {type, nullptr, weight.shape[0], weight.shape[1]};
    loaded.y_column = column;
    column += loaded.weight.n;

    // The kernels want quantised weights interleaved, and others as they are.
    std::vector<std::byte> buffer;
    ENCORE_ASSIGN_OR_RETURN(const std::byte* data, on_host(source, part.weight, buffer));
    int64_t bytes = weight.bytes;
    std::vector<std::byte> packed;
    if (kernels::is_quantised(type)) {
      const kernels::PackedWeight& shape = loaded.weight;
      packed.resize(kernels::packed_bytes(type, shape.n, shape.k));
      kernels::pack_weight(type, data, shape.n, shape.k, 0, shape.n, packed.data());
      data = packed.data();
      bytes = static_cast<int64_t>(packed.size());
    }
    ENCORE_ASSIGN_OR_RETURN(DeviceArray array, upload(data, bytes));
    source.release(part.weight);
    info_.step_weight_bytes += bytes;
    loaded.weight.data = array->data();
    linear->arrays.push_back(std::move(array));

    if (part.bias >= 0) {
      ENCORE_ASSIGN_OR_RETURN(DeviceArray bias,
                              upload_floats(source, static_cast<size_t>(part.bias)));
      loaded.bias = reinterpret_cast<const float*>(bias->data());
      linear->arrays.push_back(std::move(bias));
    }
    linear->parts.push_back(loaded);
    if (std::find(linear_types_.begin(), linear_types_.end(), type) == linear_types_.end()) {
      linear_types_.push_back(type);
    }
    max_inputs_ = std::max(max_inputs_, loaded.weight.k);
  }
  return linear;
}

Result<std::unique_ptr<EmbeddingWeight>> WeightLoader::embedding(const WeightSource& source,
                                                                 size_t index) {
  const WeightInfo& weight = source.weights()[index];
  auto embedding = std::make_unique<EmbeddingWeight>();
  std::vector<std::byte> buffer;
  ENCORE_ASSIGN_OR_RETURN(const std::byte* data, on_host(source, index, buffer));
  ENCORE_ASSIGN_OR_RETURN(embedding->rows, upload(data, weight.bytes));
  source.release(index);
  embedding->type = type_of(weight);
  embedding->row_bytes = encore::row_bytes(weight.dtype, weight.shape[1]);
  embedding->vocab_size = static_cast<int32_t>(weight.shape[0]);
  embedding->hidden_size = static_cast<int32_t>(weight.shape[1]);
  return embedding;
}

Result<std::unique_ptr<VectorWeight>> WeightLoader::vector(const WeightSource& source,
                                                           size_t index) {
  auto vector = std::make_unique<VectorWeight>();
  ENCORE_ASSIGN_OR_RETURN(vector->values, upload_floats(source, index));
  return vector;
}

Result<std::unique_ptr<RopeWeight>> WeightLoader::rope(const encore::RopeSpec& spec) {
  auto rope = std::make_unique<RopeWeight>();
  const auto bytes = static_cast<int64_t>(spec.inv_freq.size() * sizeof(float));
  ENCORE_ASSIGN_OR_RETURN(rope->inv_freq, upload(spec.inv_freq.data(), bytes));
  rope->rotary_dim = static_cast<int32_t>(2 * spec.inv_freq.size());
  rope->attention_scale = spec.attention_scale;
  rope->pairing = spec.style == encore::RopeStyle::kHalfSplit
                      ? kernels::RopePairing::kHalfSplit
                      : kernels::RopePairing::kAdjacentPairs;
  return rope;
}

}  // namespace acme
