#include "kernels/cpu/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "half.h"
#include "kernels/cpu/quant.h"
#include "ops_test_support.h"

namespace encore::kernels {
namespace {

constexpr float kEps = 1e-6F;

TEST(HalfTest, EveryHalfSurvivesAndTiesGoToEven) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = f16_to_f32(static_cast<uint16_t>(bits));
    if (!std::isnan(value)) {
      ASSERT_EQ(f32_to_f16(value), bits);
    } else {
      ASSERT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value))));
    }
    // Halfway to the next: to the even one; a little more: to the next.
    if (!std::isfinite(value) || (bits & 0x7fffU) >= 0x7bffU) continue;
    const float next = f16_to_f32(static_cast<uint16_t>(bits + 1));
    const float middle = value + (next - value) / 2;
    ASSERT_EQ(f32_to_f16(middle), bits + (bits & 1U));
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, next)), bits + 1);
  }
  EXPECT_EQ(f32_to_f16(65519.0F), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0F), 0x7c00);
  EXPECT_EQ(f32_to_f16(-1e30F), 0xfc00);
}

std::vector<float> inverse_frequencies(int32_t rotary_dim) {
  std::vector<float> values(rotary_dim / 2);
  for (int32_t i = 0; i < rotary_dim / 2; ++i) {
    values[i] = static_cast<float>(std::pow(10000.0, -2.0 * i / rotary_dim));
  }
  return values;
}

TEST(StepTablesTest, AnglesAreAccurateAtAnyPosition) {
  const std::vector<int32_t> positions = {0, 1, 17, 4095, 65535, 131071};
  const auto tokens = static_cast<int32_t>(positions.size());
  const int32_t requests = 0;
  const int32_t q_start = 0;
  const std::vector<float> inv_freq = inverse_frequencies(64);
  std::vector<float> cos_sin(positions.size() * 64 + 64, kPoison);
  std::vector<int32_t> slots(positions.size());
  StepTablesArgs args{};
  args.num_tokens = &tokens;
  args.num_requests = &requests;
  args.positions = positions.data();
  args.q_start = &q_start;
  args.page_start = &q_start;
  args.inv_freq = inv_freq.data();
  args.attention_scale = 1.25F;
  args.rotary_dim = 64;
  args.page_size = 16;
  args.num_pages = 1;
  args.cos_sin = cos_sin.data();
  args.slots = slots.data();
  run_team(step_tables, args, 2);
  for (size_t t = 0; t < positions.size(); ++t) {
    for (size_t i = 0; i < 32; ++i) {
      const long double angle = static_cast<long double>(positions[t]) * inv_freq[i];
      EXPECT_NEAR(cos_sin[t * 64 + i], static_cast<double>(1.25L * std::cos(angle)), 8e-8);
      EXPECT_NEAR(cos_sin[t * 64 + 32 + i], static_cast<double>(1.25L * std::sin(angle)), 8e-8);
    }
    EXPECT_EQ(slots[t], -1);  // no request has it
  }
  EXPECT_TRUE(all_poison(&cos_sin[positions.size() * 64], 64));
}

TEST(StepTablesTest, SlotsFollowThePageTable) {
  // Request 0: tokens 0..2 at positions 14..16; request 1: none; request 2: tokens 3, 4 at 35, 36;
  // token 5: a position past the request's pages; token 6: a page that does not exist.
  const std::vector<int32_t> positions = {14, 15, 16, 35, 36, 48, 0};
  const std::vector<int32_t> q_start = {0, 3, 3, 6, 7};
  const std::vector<int32_t> page_start = {0, 2, 2, 5, 6};
  const std::vector<int32_t> page_ids = {7, 2, 0, 9, 4, 10};
  const int32_t tokens = 7;
  const int32_t requests = 4;
  const float inv_freq = 1.0F;
  for (const int32_t threads : {1, 2, 3}) {
    std::vector<float> cos_sin(2 * 7);
    std::vector<int32_t> slots(8, -77);
    StepTablesArgs args{&tokens,
                        &requests,
                        positions.data(),
                        q_start.data(),
                        page_start.data(),
                        page_ids.data(),
                        &inv_freq,
                        1.0F,
                        2,
                        16,
                        10,
                        cos_sin.data(),
                        slots.data()};
    run_team(step_tables, args, threads);
    EXPECT_EQ(slots, (std::vector<int32_t>{126, 127, 32, 67, 68, -1, -1, -77}));
  }
}

struct RopeCase {
  WeightType type;
  RopePairing pairing;
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
  int32_t rotary_dim;
  int32_t page_size;
  bool norm;
  bool in_place;
};

constexpr RopeCase kCases[] = {
    {WeightType::kBF16, RopePairing::kHalfSplit, 9, 3, 64, 64, 16, false, true},
    {WeightType::kF32, RopePairing::kAdjacentPairs, 9, 3, 64, 64, 16, false, false},
    {WeightType::kF16, RopePairing::kHalfSplit, 4, 1, 128, 128, 32, true, true},
    {WeightType::kF32, RopePairing::kHalfSplit, 2, 2, 72, 40, 64, true, false},
    {WeightType::kBF16, RopePairing::kAdjacentPairs, 4, 2, 24, 20, 16, true, true},
    {WeightType::kF16, RopePairing::kAdjacentPairs, 2, 1, 256, 256, 16, false, true},
};

// Head `x` normalised and rotated in double.
std::vector<double> rotated(const RopeCase& c, const float* x, const std::vector<float>& weight,
                            const float* cos_sin) {
  std::vector<double> head(x, x + c.head_dim);
  if (c.norm) {
    double sum = 0.0;
    for (const double v : head) sum += v * v;
    const double inverse = 1.0 / std::sqrt(sum / c.head_dim + static_cast<double>(kEps));
    for (int32_t i = 0; i < c.head_dim; ++i) head[i] *= inverse * static_cast<double>(weight[i]);
  }
  const int32_t pairs = c.rotary_dim / 2;
  for (int32_t i = 0; i < pairs; ++i) {
    const bool adjacent = c.pairing == RopePairing::kAdjacentPairs;
    double& a = head[adjacent ? 2 * i : i];
    double& b = head[adjacent ? 2 * i + 1 : i + pairs];
    const double cosine = cos_sin[i];
    const double sine = cos_sin[pairs + i];
    const double turned = a * cosine - b * sine;
    b = b * cosine + a * sine;
    a = turned;
  }
  return head;
}

float cached(const std::byte* page, WeightType type, int64_t element) {
  if (type == WeightType::kF32) return reinterpret_cast<const float*>(page)[element];
  const uint16_t bits = reinterpret_cast<const uint16_t*>(page)[element];
  return type == WeightType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

// Half a unit in the last place of the cache's type, relative, and f32 rounding.
double cache_tolerance(WeightType type) {
  if (type == WeightType::kF32) return 1e-6;
  return type == WeightType::kF16 ? 0x1p-11 + 1e-6 : 0x1p-8 + 1e-6;
}

class RopeKvTest : public testing::TestWithParam<IsaLevel> {};

struct RopeRun {
  std::vector<float> qkv;
  std::vector<float> q_out;
  std::vector<float> cos_sin;
  std::vector<float> q_weight;
  std::vector<float> k_weight;
  std::vector<float> input;
  std::unique_ptr<Aligned<std::byte>> cache;
  int64_t stride;
};

constexpr int32_t kTokens = 5;
constexpr int32_t kPages = 3;

RopeRun run_rope(const RopeCase& c, IsaLevel level, const std::vector<int32_t>& slots,
                 int32_t threads) {
  const KvLayout layout = {c.type, c.num_kv_heads, c.head_dim, c.page_size};
  const int32_t q_size = c.num_heads * c.head_dim;
  const int32_t width = q_size + 2 * c.num_kv_heads * c.head_dim;
  const auto live = static_cast<int32_t>(slots.size());
  RopeRun run;
  run.input = random_floats(static_cast<size_t>(kTokens) * width, 1);
  run.qkv = run.input;
  run.q_out.assign(static_cast<size_t>(kTokens) * q_size, kPoison);
  run.cos_sin = random_floats(static_cast<size_t>(kTokens) * c.rotary_dim, 2);
  run.q_weight = random_floats(c.head_dim, 3);
  run.k_weight = random_floats(c.head_dim, 4);
  run.stride = layout.page_bytes() + 64;
  run.cache = std::make_unique<Aligned<std::byte>>(kPages * run.stride);
  RopeKvArgs args{};
  args.num_tokens = &live;
  args.qkv = run.qkv.data();
  args.qkv_stride = width;
  args.q_out = c.in_place ? run.qkv.data() : run.q_out.data();
  args.q_out_stride = c.in_place ? width : q_size;
  args.q_norm_weight = c.norm ? run.q_weight.data() : nullptr;
  args.k_norm_weight = c.norm ? run.k_weight.data() : nullptr;
  args.norm_eps = kEps;
  args.pairing = c.pairing;
  args.num_heads = c.num_heads;
  args.rotary_dim = c.rotary_dim;
  args.cos_sin = run.cos_sin.data();
  args.slots = slots.data();
  args.kv = {run.cache->data(), run.stride, layout};
  run_team(rope_kv_kernel(level), args, threads);
  return run;
}

TEST_P(RopeKvTest, AgreesWithDoubleInQueriesAndCache) {
  for (const RopeCase& c : kCases) {
    SCOPED_TRACE(testing::Message() << "head_dim " << c.head_dim << ", rotary " << c.rotary_dim
                                    << ", pairing " << static_cast<int>(c.pairing));
    const KvLayout layout = {c.type, c.num_kv_heads, c.head_dim, c.page_size};
    const int32_t q_size = c.num_heads * c.head_dim;
    const int32_t width = q_size + 2 * c.num_kv_heads * c.head_dim;
    const std::vector<int32_t> slots = {2 * c.page_size + 3, 0, 2 * c.page_size - 1, -1};
    const auto live = static_cast<int32_t>(slots.size());
    RopeRun run = run_rope(c, GetParam(), slots, 2);
    std::vector<bool> written(run.cache->size());
    for (int32_t t = 0; t < live; ++t) {
      const float* cos_sin = &run.cos_sin[static_cast<size_t>(t) * c.rotary_dim];
      const float* in = &run.input[static_cast<size_t>(t) * width];
      const float* q = c.in_place ? &run.qkv[static_cast<size_t>(t) * width]
                                  : &run.q_out[static_cast<size_t>(t) * q_size];
      for (int32_t h = 0; h < c.num_heads; ++h) {
        const std::vector<double> e = rotated(c, in + h * c.head_dim, run.q_weight, cos_sin);
        for (int32_t d = 0; d < c.head_dim; ++d) ASSERT_NEAR(q[h * c.head_dim + d], e[d], 5e-6);
      }
      if (slots[t] < 0) continue;
      const int64_t at = slots[t] / c.page_size * run.stride;
      const int32_t offset = slots[t] % c.page_size;
      for (int32_t h = 0; h < c.num_kv_heads; ++h) {
        const float* k = in + q_size + h * c.head_dim;
        const float* v = k + c.num_kv_heads * c.head_dim;
        const std::vector<double> e = rotated(c, k, run.k_weight, cos_sin);
        for (int32_t d = 0; d < c.head_dim; ++d) {
          const int64_t key = layout.key_offset(h, d, offset);
          const int64_t value = layout.value_offset(h, offset, d);
          const double tolerance = cache_tolerance(c.type);
          ASSERT_NEAR(cached(run.cache->data() + at, c.type, key), e[d],
                      tolerance * std::abs(e[d]) + 5e-6);
          ASSERT_NEAR(
              cached(run.cache->data() + at, c.type, value), v[d],
              tolerance * std::abs(static_cast<double>(v[d])) + 0x1p-25);  // half a subnormal f16
          for (int64_t b = 0; b < layout.element_bytes(); ++b) {
            written[at + key * layout.element_bytes() + b] = true;
            written[at + value * layout.element_bytes() + b] = true;
          }
        }
      }
    }
    for (size_t i = 0; i < written.size(); ++i) {
      ASSERT_TRUE(written[i] || (*run.cache)[i] == std::byte{0xFF}) << "byte " << i;
    }
    EXPECT_TRUE(same_bits(&run.qkv[static_cast<size_t>(live) * width],
                          &run.input[static_cast<size_t>(live) * width], width));
    EXPECT_TRUE(all_poison(&run.q_out[static_cast<size_t>(live) * q_size], q_size));
  }
}

TEST_P(RopeKvTest, ValuesAreRoundedToNearestEven) {
  for (const RopeCase& c : {kCases[0], kCases[2]}) {
    const KvLayout layout = {c.type, c.num_kv_heads, c.head_dim, c.page_size};
    RopeRun run = run_rope(c, GetParam(), {0}, 1);
    const float* v = &run.input[(c.num_heads + c.num_kv_heads) * c.head_dim];
    for (int32_t d = 0; d < c.head_dim; ++d) {
      const uint16_t bits =
          reinterpret_cast<const uint16_t*>(run.cache->data())[layout.value_offset(0, 0, d)];
      EXPECT_EQ(bits, c.type == WeightType::kF16 ? f32_to_f16(v[d]) : f32_to_bf16(v[d]));
    }
  }
}

TEST_P(RopeKvTest, CompanyAndThreadsDoNotChangeBits) {
  for (const RopeCase& c : kCases) {
    const std::vector<int32_t> slots = {5, 4, 3, 2, 1};
    RopeRun one = run_rope(c, GetParam(), slots, 1);
    RopeRun three = run_rope(c, GetParam(), slots, 3);
    RopeRun first = run_rope(c, GetParam(), {5}, 1);
    EXPECT_TRUE(same_bits(one.qkv.data(), three.qkv.data(), one.qkv.size()));
    EXPECT_TRUE(same_bits(one.q_out.data(), three.q_out.data(), one.q_out.size()));
    EXPECT_EQ(std::memcmp(one.cache->data(), three.cache->data(), one.cache->size()), 0);
    const size_t q_size = static_cast<size_t>(c.num_heads) * c.head_dim;
    EXPECT_TRUE(same_bits(first.qkv.data(), one.qkv.data(), q_size));
    EXPECT_TRUE(same_bits(first.q_out.data(), one.q_out.data(), q_size));
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, RopeKvTest, testing::ValuesIn(ops_levels()), LevelName());

}  // namespace
}  // namespace encore::kernels
