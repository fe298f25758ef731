// Shared by the tests of the kernels around the matrix products: levels, teams, random numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/worker.h"

namespace encore::kernels {

// Values that no result may contain: kernels must not write where they should not.
inline constexpr float kPoison = -12345.0F;

// The levels of this processor that have kernels of their own here, best last;
// ENCORE_TEST_CPU_LEVEL (a name) leaves one.
inline std::vector<IsaLevel> ops_levels() {
  const char* only = std::getenv("ENCORE_TEST_CPU_LEVEL");
  std::vector<IsaLevel> levels;
  for (const IsaLevel level : {IsaLevel::kGeneric, IsaLevel::kAvx2, IsaLevel::kAvx512}) {
    if (level > cpu_features().level) break;
    if (only == nullptr || std::string(only) == isa_level_name(level)) levels.push_back(level);
  }
  return levels;
}

// Names the cases of a suite whose parameter is a level.
struct LevelName {
  template <typename Info>
  std::string operator()(const Info& info) const {
    return isa_level_name(info.param);
  }
};

// 64-byte aligned memory, every byte 0xFF: NaN, whatever the float type.
template <typename T>
class Aligned {
 public:
  explicit Aligned(size_t count)
      : count_(count),
        data_(static_cast<T*>(::operator new (count * sizeof(T) + 64, std::align_val_t{64}))) {
    std::memset(static_cast<void*>(data_), 0xFF, count * sizeof(T) + 64);
  }
  ~Aligned() { ::operator delete (data_, std::align_val_t{64}); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;

  T* data() { return data_; }
  size_t size() const { return count_; }
  T& operator[](size_t i) { return data_[i]; }

 private:
  size_t count_;
  T* data_;
};

// Calls kernel(args, worker) on a team of `threads`.
template <typename Kernel, typename Args>
void run_team(Kernel kernel, const Args& args, int32_t threads, size_t scratch_bytes = 0) {
  Barrier barrier(threads);
  const auto work = [&](int32_t index) {
    Aligned<std::byte> scratch(scratch_bytes);
    kernel(args, Worker{index, threads, &barrier, scratch.data(), scratch_bytes});
  };
  std::vector<std::thread> others;
  for (int32_t t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& thread : others) thread.join();
}

inline std::vector<float> random_floats(size_t count, uint32_t seed, float deviation = 1.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

inline bool same_bits(const float* a, const float* b, size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

inline bool all_poison(const float* p, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (p[i] != kPoison) return false;
  }
  return true;
}

}  // namespace encore::kernels
