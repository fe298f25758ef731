#include "weight_slab.h"

#include <algorithm>
#include <string>

namespace encore::gpu {
namespace {

constexpr int64_t kVectorBytes = 16;  // what kernels load at once

int64_t aligned(int64_t bytes) {
  return (bytes + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment;
}

bool is_weight_dtype(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 ||
         is_quantised(dtype);
}

// Of a row; 1 for a vector, so that vectors of any lengths stack.
int64_t columns(const WeightInfo& weight) { return weight.shape.size() == 1 ? 1 : weight.shape[1]; }

}  // namespace

int64_t weight_elements(const WeightInfo& weight) {
  int64_t elements = 1;
  for (const int64_t size : weight.shape) elements *= size;
  return elements;
}

int64_t bf16_bytes(const WeightInfo& weight) { return 2 * weight_elements(weight); }

WeightSlab::WeightSlab(const WeightSource& source)
    : source_(source), offsets_(source.weights().size(), -1) {}

int64_t WeightSlab::bytes(const WeightSource& source) {
  int64_t total = 0;
  for (const WeightInfo& weight : source.weights()) total += aligned(bf16_bytes(weight));
  return total;
}

Status WeightSlab::check(std::span<const size_t> weights) const {
  if (weights.empty()) return invalid_argument("no weight was named");
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] >= offsets_.size()) {
      return invalid_argument("there is no weight " + std::to_string(weights[i]) +
                              "; the model has " + std::to_string(offsets_.size()));
    }
    const WeightInfo& weight = source_.weights()[weights[i]];
    const WeightInfo& first = source_.weights()[weights[0]];
    if (!is_weight_dtype(weight.dtype)) {
      return unimplemented("weight " + weight.name + " is " +
                           std::string(dtype_name(weight.dtype)) +
                           ", which is not a weight's type");
    }
    if (columns(weight) != columns(first)) {
      return invalid_argument("weights " + first.name + " and " + weight.name + " have " +
                              std::to_string(columns(first)) + " and " +
                              std::to_string(columns(weight)) +
                              " columns; only equal ones can be stacked");
    }
    if (std::count(weights.begin(), weights.end(), weights[i]) != 1) {
      return invalid_argument("weight " + weight.name + " stands twice in one stack");
    }
    if (i + 1 < weights.size() && bf16_bytes(weight) % kVectorBytes != 0) {
      return invalid_argument("weight " + weight.name + " has " +
                              std::to_string(weight_elements(weight)) +
                              " elements; one with another behind it needs a multiple of 8");
    }
  }
  return {};
}

Result<WeightSlab::Place> WeightSlab::place(std::span<const size_t> weights) {
  ENCORE_RETURN_IF_ERROR(check(weights));
  const int64_t first = offsets_[weights[0]];
  const bool fresh = first < 0;
  int64_t offset = fresh ? used_bytes_ : first;
  for (const size_t index : weights) {
    if (offsets_[index] != (fresh ? -1 : offset)) {
      return failed_precondition("weight " + source_.weights()[index].name +
                                 " was loaded before, apart from those it is stacked with now");
    }
    offset += bf16_bytes(source_.weights()[index]);
  }
  if (!fresh) return Place{first, false};
  offset = used_bytes_;
  for (const size_t index : weights) {
    offsets_[index] = offset;
    offset += bf16_bytes(source_.weights()[index]);
  }
  const Place place{used_bytes_, true};
  used_bytes_ = aligned(offset);
  return place;
}

}  // namespace encore::gpu
