#include "weights.h"

#include <algorithm>
#include <utility>

namespace encore::cpu {
namespace {

constexpr int64_t kPanelRows = 16;  // pack_weight works on whole panels

struct PackArgs {
  kernels::WeightType type;
  const void* source;
  int64_t n;
  int64_t k;
  void* packed;
};

void pack_share(const PackArgs& args, const kernels::Worker& worker) {
  const int64_t panels = (args.n + kPanelRows - 1) / kPanelRows;
  const kernels::Share share = kernels::share_of(panels, worker.index, worker.count);
  if (share.begin == share.end) return;
  kernels::pack_weight(args.type, args.source, args.n, args.k, share.begin * kPanelRows,
                       std::min(share.end * kPanelRows, args.n), args.packed);
}

}  // namespace

// The weight where it is mapped, or a copy of it in the pool.
Result<const std::byte*> WeightLoader::in_place(const WeightSource& source, size_t index) {
  const WeightInfo& weight = source.weights()[index];
  const std::byte* mapped = source.map(index);
  if (mapped != nullptr) {
    info_.mapped_bytes += weight.bytes;
    return mapped;
  }
  ENCORE_ASSIGN_OR_RETURN(std::byte * copy, pool_.allocate(weight.bytes));
  ENCORE_RETURN_IF_ERROR(source.read(index, 0, std::span(copy, static_cast<size_t>(weight.bytes))));
  return static_cast<const std::byte*>(copy);
}

Result<kernels::PackedWeight> WeightLoader::pack(const WeightSource& source, size_t index) {
  const WeightInfo& weight = source.weights()[index];
  const auto type = static_cast<kernels::WeightType>(weight.dtype);
  kernels::PackedWeight packed{type, nullptr, weight.shape[0], weight.shape[1]};
  if (std::find(linear_types_.begin(), linear_types_.end(), type) == linear_types_.end()) {
    linear_types_.push_back(type);
  }
  max_inputs_ = std::max(max_inputs_, packed.k);
  if (!kernels::is_quantised(type)) {
    ENCORE_ASSIGN_OR_RETURN(packed.data, in_place(source, index));
    info_.step_weight_bytes += weight.bytes;
    return packed;
  }
  const auto bytes = static_cast<int64_t>(kernels::packed_bytes(type, packed.n, packed.k));
  ENCORE_ASSIGN_OR_RETURN(std::byte * target, pool_.allocate(bytes));
  const std::byte* file = source.map(index);
  std::vector<std::byte> copy;
  if (file == nullptr) {
    copy.resize(static_cast<size_t>(weight.bytes));
    ENCORE_RETURN_IF_ERROR(source.read(index, 0, copy));
    file = copy.data();
  }
  team_.run<PackArgs>(pack_share, {type, file, packed.n, packed.k, target});
  source.release(index);
  packed.data = target;
  info_.step_weight_bytes += bytes;
  return packed;
}

Result<std::vector<float>> WeightLoader::floats(const WeightSource& source, size_t index) {
  const WeightInfo& weight = source.weights()[index];
  std::vector<std::byte> raw(static_cast<size_t>(weight.bytes));
  ENCORE_RETURN_IF_ERROR(source.read(index, 0, raw));
  std::vector<float> values(static_cast<size_t>(weight.shape[0]));
  kernels::dequantize_row(static_cast<kernels::WeightType>(weight.dtype), raw.data(),
                          weight.shape[0], values.data());
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
  info_.weight_bytes += bytes;
  info_.step_weight_bytes += bytes;
  return values;
}

Result<std::unique_ptr<LinearWeight>> WeightLoader::linear(
    const WeightSource& source, std::span<const lowering::LinearPart> parts) {
  auto linear = std::make_unique<LinearWeight>();
  const int64_t before = pool_.used_bytes() + info_.mapped_bytes;
  int64_t column = 0;
  for (const lowering::LinearPart& part : parts) {
    kernels::LinearPart loaded;
    ENCORE_ASSIGN_OR_RETURN(loaded.weight, pack(source, part.weight));
    loaded.y_column = column;
    column += loaded.weight.n;
    if (part.bias >= 0) {
      ENCORE_ASSIGN_OR_RETURN(std::vector<float> bias,
                              floats(source, static_cast<size_t>(part.bias)));
      linear->biases.push_back(std::move(bias));
      loaded.bias = linear->biases.back().data();
    }
    linear->parts.push_back(loaded);
  }
  info_.weight_bytes += pool_.used_bytes() + info_.mapped_bytes - before;
  return linear;
}

Result<std::unique_ptr<EmbeddingWeight>> WeightLoader::embedding(const WeightSource& source,
                                                                 size_t index) {
  const WeightInfo& weight = source.weights()[index];
  const int64_t before = pool_.used_bytes() + info_.mapped_bytes;
  auto embedding = std::make_unique<EmbeddingWeight>();
  ENCORE_ASSIGN_OR_RETURN(embedding->rows, in_place(source, index));
  embedding->type = static_cast<kernels::WeightType>(weight.dtype);
  embedding->row_bytes = row_bytes(weight.dtype, weight.shape[1]);
  embedding->vocab_size = static_cast<int32_t>(weight.shape[0]);
  embedding->hidden_size = static_cast<int32_t>(weight.shape[1]);
  info_.weight_bytes += pool_.used_bytes() + info_.mapped_bytes - before;
  return embedding;
}

Result<std::unique_ptr<VectorWeight>> WeightLoader::vector(const WeightSource& source,
                                                           size_t index) {
  auto vector = std::make_unique<VectorWeight>();
  ENCORE_ASSIGN_OR_RETURN(vector->values, floats(source, index));
  return vector;
}

}  // namespace encore::cpu
