// A llama of random bf16 weights in memory: two layers, hidden size 64, so small that any backend
// runs it in a blink.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "encore/model_spec.h"
#include "encore/status.h"
#include "encore/weights.h"

namespace encore {

// Sizes are multiples of what kernels like: 4 heads of 32 over 2, so that two ranks can share it.
ModelSpec tiny_spec();

// The same weights each time. Any thread.
class TinyWeights final : public WeightSource {
 public:
  explicit TinyWeights(const ModelSpec& spec);

  std::span<const WeightInfo> weights() const override { return infos_; }
  Status read(size_t index, int64_t offset, std::span<std::byte> destination) const override;
  const std::byte* map(size_t index) const override;
  void release(size_t index) const override;

 private:
  void add_layer(const ModelSpec& spec, const std::string& prefix);
  void matrix(const std::string& name, int64_t rows, int64_t columns);
  void norm(const std::string& name, int64_t size);
  void add(const std::string& name, std::vector<int64_t> shape, float mean, float spread);
  float next();

  uint64_t random_ = 7;
  std::vector<WeightInfo> infos_;
  std::vector<std::vector<uint16_t>> data_;  // bf16, by index of infos_
};

}  // namespace encore
