#include "encore/lowering/arena.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace encore::lowering {

int32_t ArenaPlan::add(std::string name, int64_t bytes, int32_t first, int32_t last) {
  const int64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  tensors_.push_back({std::move(name), rounded, first, last, -1});
  return static_cast<int32_t>(tensors_.size()) - 1;
}

int64_t ArenaPlan::lowest_free_offset(const Tensor& tensor) const {
  std::vector<const Tensor*> neighbours;
  for (const Tensor& other : tensors_) {
    const bool overlaps_in_time = other.first <= tensor.last && tensor.first <= other.last;
    if (other.offset >= 0 && overlaps_in_time) neighbours.push_back(&other);
  }
  std::sort(neighbours.begin(), neighbours.end(),
            [](const Tensor* a, const Tensor* b) { return a->offset < b->offset; });
  int64_t offset = 0;
  for (const Tensor* other : neighbours) {
    if (offset + tensor.bytes <= other->offset) break;
    offset = std::max(offset, other->offset + other->bytes);
  }
  return offset;
}

void ArenaPlan::solve() {
  std::vector<size_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [this](size_t a, size_t b) { return tensors_[a].bytes > tensors_[b].bytes; });
  for (Tensor& tensor : tensors_) tensor.offset = -1;
  bytes_ = 0;
  for (const size_t index : order) {
    tensors_[index].offset = lowest_free_offset(tensors_[index]);
    bytes_ = std::max(bytes_, tensors_[index].offset + tensors_[index].bytes);
  }
}

}  // namespace encore::lowering
