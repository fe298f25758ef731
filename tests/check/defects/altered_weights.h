// A model's weights with some of them changed: what a defect hands to the sound backend.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "encore/weights.h"

namespace encore::defects {

// Holds copies of the weights that are changed and hands on the others. Borrows `source`.
class AlteredWeights final : public WeightSource {
 public:
  explicit AlteredWeights(const WeightSource& source);

  // Changes a weight's bytes in place. REQUIRES: it exists.
  void alter(std::string_view name, const std::function<void(std::vector<std::byte>&)>& change);
  // Adds `name` as a copy of weight `original`, to be altered. REQUIRES: that exists.
  void add_copy(const std::string& name, std::string_view original);

  std::span<const WeightInfo> weights() const override { return infos_; }
  Status read(size_t index, int64_t offset, std::span<std::byte> destination) const override;
  const std::byte* map(size_t index) const override;
  void release(size_t index) const override { static_cast<void>(index); }

 private:
  const WeightSource& source_;
  std::vector<WeightInfo> infos_;
  std::map<size_t, std::vector<std::byte>> changed_;  // by index in infos_
};

}  // namespace encore::defects
