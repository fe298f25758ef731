// Weights that exist in memory only, and reads that fail when told to.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "encore/weights.h"

namespace encore::gpu::testing {

class FakeWeights final : public WeightSource {
 public:
  // Random values of ordinary size, a fixed function of the weights added before. Gives the index.
  size_t add(const std::string& name, DType dtype, std::vector<int64_t> shape) {
    int64_t elements = 1;
    for (const int64_t size : shape) elements *= size;
    const int64_t bytes = row_bytes(dtype, elements);
    data_.push_back(random_bytes(dtype, static_cast<size_t>(bytes)));
    weights_.push_back({name, dtype, std::move(shape), bytes});
    return weights_.size() - 1;
  }

  const std::vector<std::byte>& data(size_t index) const { return data_[index]; }
  // The `count`-th read from now on, counted from 0, and those after it fail.
  void fail_after(int64_t count) { reads_left_ = count; }
  int64_t reads() const { return reads_; }

  std::span<const WeightInfo> weights() const override { return weights_; }
  Status read(size_t index, int64_t offset, std::span<std::byte> destination) const override {
    ++reads_;
    if (reads_left_-- <= 0) return data_loss("the file has shrunk");
    const std::vector<std::byte>& data = data_.at(index);
    if (offset < 0 || offset + destination.size() > data.size()) {
      return invalid_argument("a read leaves its weight");
    }
    std::memcpy(destination.data(), data.data() + offset, destination.size());
    return {};
  }
  const std::byte* map(size_t /*index*/) const override { return nullptr; }
  void release(size_t /*index*/) const override {}

 private:
  std::vector<std::byte> random_bytes(DType dtype, size_t count) {
    std::mt19937 engine(static_cast<uint32_t>(weights_.size()));
    std::vector<std::byte> bytes(count);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(engine() & 255);
    if (dtype == DType::kF32 || dtype == DType::kBF16) {
      // Magnitudes between 2^-15 and 2, any sign and mantissa.
      const size_t width = dtype == DType::kF32 ? 4 : 2;
      for (size_t i = width - 1; i < count; i += width) {
        const auto sign = static_cast<uint8_t>(engine() & 128U);
        bytes[i] = static_cast<std::byte>(sign | 0x38U | (engine() & 7U));
      }
    }
    if (dtype == DType::kF16) tame_halves(&bytes, 0, 2, 1);
    if (is_quantised(dtype)) {
      // The scales of a group: one or two halves at its begin, or one at the end of a q6_k group.
      const auto group = static_cast<size_t>(dtype_info(dtype).block_bytes);
      const bool one = dtype == DType::kQ8_0 || dtype == DType::kQ4_0 || dtype == DType::kQ6_K;
      tame_halves(&bytes, dtype == DType::kQ6_K ? group - 2 : 0, group, one ? 1 : 2);
    }
    return bytes;
  }

  // Makes f16 values at `first` and every `step` bytes small and finite.
  static void tame_halves(std::vector<std::byte>* bytes, size_t first, size_t step, size_t number) {
    for (size_t at = first; at < bytes->size(); at += step) {
      for (size_t i = 0; i < number; ++i) {
        std::byte& high = (*bytes)[at + 2 * i + 1];
        high = (high & std::byte{0x83}) | std::byte{0x2C};  // 2^-4 to 2^-3
      }
    }
  }

  std::vector<WeightInfo> weights_;
  std::vector<std::vector<std::byte>> data_;
  mutable std::atomic<int64_t> reads_{0};
  mutable std::atomic<int64_t> reads_left_{INT64_MAX};
};

}  // namespace encore::gpu::testing
