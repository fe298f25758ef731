// Plans where short-lived tensors lie in one shared piece of memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace encore::lowering {

// Tensors with known sizes and lifetimes get offsets such that two that are alive at the same time
// never overlap. Pure arithmetic: no memory is touched.
class ArenaPlan {
 public:
  static constexpr int64_t kAlignment = 64;

  // A tensor alive from stage `first` to stage `last`, both included. Returns its id.
  int32_t add(std::string name, int64_t bytes, int32_t first, int32_t last);

  // Places all tensors, largest first, each at the lowest offset that is free during its life.
  void solve();

  // REQUIRES: solve() was called after the last add().
  int64_t offset(int32_t id) const { return tensors_[static_cast<size_t>(id)].offset; }
  int64_t bytes() const { return bytes_; }

 private:
  struct Tensor {
    std::string name;
    int64_t bytes = 0;
    int32_t first = 0;
    int32_t last = 0;
    int64_t offset = -1;
  };
  int64_t lowest_free_offset(const Tensor& tensor) const;

  std::vector<Tensor> tensors_;
  int64_t bytes_ = 0;
};

}  // namespace encore::lowering
