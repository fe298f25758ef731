// Shared by the tests of weight formats and matrix products: weights made of random blocks in the
// file's layout, and a team of threads.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu/linear.h"

namespace encore::kernels {

inline constexpr WeightType kAllTypes[] = {WeightType::kF32,  WeightType::kF16,  WeightType::kBF16,
                                           WeightType::kQ8_0, WeightType::kQ4_0, WeightType::kQ4_1,
                                           WeightType::kQ4_K, WeightType::kQ5_K, WeightType::kQ6_K};

inline const char* type_name(WeightType type) {
  switch (type) {
    case WeightType::kF32:
      return "f32";
    case WeightType::kF16:
      return "f16";
    case WeightType::kBF16:
      return "bf16";
    case WeightType::kQ8_0:
      return "q8_0";
    case WeightType::kQ4_0:
      return "q4_0";
    case WeightType::kQ4_1:
      return "q4_1";
    case WeightType::kQ4_K:
      return "q4_k";
    case WeightType::kQ5_K:
      return "q5_k";
    case WeightType::kQ6_K:
      return "q6_k";
  }
  return "unknown";
}

// Memory aligned to 64 bytes, filled with a value that no kernel may rely on.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t size)
      : size_(size), data_(new (std::align_val_t{64}) std::byte[size]) {
    std::memset(data_.get(), 0xFF, size);
  }
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  size_t size_;
  std::unique_ptr<std::byte[], Free> data_;
};

// Where in a block of `type` its f16 scales are.
inline std::vector<int> scale_offsets(WeightType type) {
  switch (type) {
    case WeightType::kQ8_0:
    case WeightType::kQ4_0:
      return {0};
    case WeightType::kQ4_1:
    case WeightType::kQ4_K:
    case WeightType::kQ5_K:
      return {0, 2};
    case WeightType::kQ6_K:
      return {208};
    default:
      return {};
  }
}

// [n, k] in the file's layout: every code and integer scale occurs; float scales are moderate.
inline std::vector<uint8_t> random_weight(WeightType type, int64_t n, int64_t k, uint32_t seed) {
  std::mt19937 random(seed);
  const int64_t blocks = n * k / block_elements(type);
  const auto bytes = static_cast<size_t>(block_bytes(type));
  std::vector<uint8_t> data(static_cast<size_t>(blocks) * bytes);
  if (type == WeightType::kF32) {
    std::normal_distribution<float> normal(0.0F, 0.05F);
    for (size_t i = 0; i < data.size(); i += 4) {
      const float value = normal(random);
      std::memcpy(&data[i], &value, 4);
    }
    return data;
  }
  for (uint8_t& byte : data) byte = static_cast<uint8_t>(random());
  // Magnitudes from 2^-9 to 2^-5 with a random sign: f16 has its exponent in bits 10..14.
  const auto moderate = [&](size_t at, int exponent_bias) {
    const auto exponent = static_cast<uint32_t>(exponent_bias) - 9 + random() % 5;
    const auto bits = static_cast<uint16_t>((random() & 0x83FFU) | (exponent << 10));
    std::memcpy(&data[at], &bits, 2);
  };
  if (type == WeightType::kF16) {
    for (size_t i = 0; i < data.size(); i += 2) moderate(i, 15);
  } else if (type == WeightType::kBF16) {
    for (size_t i = 0; i < data.size(); i += 2) {
      const auto bits = static_cast<uint16_t>((random() & 0x807FU) | ((118 + random() % 5) << 7));
      std::memcpy(&data[i], &bits, 2);
    }
  } else {
    for (size_t b = 0; b < static_cast<size_t>(blocks); ++b) {
      for (const int offset : scale_offsets(type)) {
        moderate(b * bytes + static_cast<size_t>(offset), 15);
      }
    }
  }
  return data;
}

inline std::vector<float> random_rows(int64_t rows, int64_t k, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  std::vector<float> x(static_cast<size_t>(rows * k));
  for (float& value : x) value = normal(random);
  return x;
}

// A weight in the file's layout and packed.
struct TestWeight {
  TestWeight(WeightType weight_type, int64_t n, int64_t k, uint32_t seed)
      : file(random_weight(weight_type, n, k, seed)), bytes(packed_bytes(weight_type, n, k)) {
    pack_weight(weight_type, file.data(), n, k, 0, n, bytes.data());
    packed = {weight_type, bytes.data(), n, k};
  }
  // As f32 [n, k].
  std::vector<float> dequantized() const {
    std::vector<float> out(static_cast<size_t>(packed.n * packed.k));
    dequantize_row(packed.type, file.data(), packed.n * packed.k, out.data());
    return out;
  }

  std::vector<uint8_t> file;
  AlignedBytes bytes;
  PackedWeight packed;
};

// Runs linear() on a team of `threads`, with room in each worker's scratch or none.
inline void run_linear(LinearArgs args, int32_t threads, bool scratch = true) {
  std::vector<WeightType> types(static_cast<size_t>(args.num_parts));
  for (size_t p = 0; p < types.size(); ++p) types[p] = args.parts[p].weight.type;
  const int64_t k = args.parts[0].weight.k;
  AlignedBytes workspace(linear_workspace_bytes(types, args.max_rows, k));
  args.workspace = workspace.data();
  const size_t scratch_bytes = scratch ? linear_scratch_bytes(types, k) : 0;
  Barrier barrier(threads);
  const auto work = [&](int32_t index) {
    AlignedBytes own(scratch_bytes);
    linear(args, Worker{index, threads, &barrier, own.data(), scratch_bytes});
  };
  std::vector<std::thread> others;
  for (int32_t t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& thread : others) thread.join();
}

// y of one unfused product.
inline std::vector<float> product(const PackedWeight& weight, const std::vector<float>& x,
                                  int32_t rows, IsaLevel level, int32_t threads = 1,
                                  bool scratch = true) {
  std::vector<float> y(static_cast<size_t>(rows * weight.n));
  LinearArgs args;
  args.x = x.data();
  args.x_stride = weight.k;
  args.num_rows = &rows;
  args.max_rows = rows;
  args.parts[0].weight = weight;
  args.y = y.data();
  args.y_stride = weight.n;
  args.level = level;
  run_linear(args, threads, scratch);
  return y;
}

// The levels that this processor has, best last; ENCORE_TEST_CPU_LEVEL (a name) leaves one.
inline std::vector<IsaLevel> levels_to_test() {
  const char* only = std::getenv("ENCORE_TEST_CPU_LEVEL");
  std::vector<IsaLevel> levels;
  for (int32_t l = 0; l <= static_cast<int32_t>(cpu_features().level); ++l) {
    const auto level = static_cast<IsaLevel>(l);
    if (only == nullptr || std::string(only) == isa_level_name(level)) levels.push_back(level);
  }
  return levels;
}

}  // namespace encore::kernels
