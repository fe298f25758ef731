#include "kernels/gpu/rope.h"

#include <bit>

#include "gpu_test_support.h"

namespace encore::gpu::testing {
namespace {

constexpr auto kPoison32 = static_cast<int32_t>(0xCDCDCDCD);

class StepTablesTest : public GpuTest {};
ENCORE_GPU_WARP_TEST(RopeTest);

TEST_F(StepTablesTest, AnglesAndSlots) {
  constexpr int32_t kTokens = 12;
  constexpr int32_t kPageSize = 16;
  constexpr int32_t kPages = 9;
  constexpr int32_t kPairs = 37;
  constexpr float kScale = 1.25F;
  const std::vector<int32_t> page_start = {0, 3, 3, 6};
  const std::vector<int32_t> page_ids = {4, 0, 8, 5, 9, -2};  // the last two are no pages
  const std::vector<int32_t> request = {0, 0, 0, 0, 1, 2, 2, -1, 0, 0, 2, 0};
  const std::vector<int32_t> position = {0, 15, 16, 47, 3, 0, 20, 5, 48, -1, (1 << 20) - 1, 1};
  const std::vector<int32_t> slots = {64, 79, 0, 143, -1, 80, -1, -1, -1, -1, -1, 65};
  std::vector<float> inv_freq(kPairs);
  for (int32_t i = 0; i < kPairs; ++i)
    inv_freq[i] = std::pow(10000.0F, -static_cast<float>(i) / kPairs);
  DeviceBuffer<int32_t> device_page_start(page_start);
  DeviceBuffer<int32_t> device_page_ids(page_ids);
  DeviceBuffer<int32_t> device_request(request);
  DeviceBuffer<int32_t> device_position(position);
  DeviceBuffer<float> device_inv_freq(inv_freq);
  for (const int32_t live : {0, 1, 11, 12}) {
    DeviceBuffer<int32_t> device_live(std::vector<int32_t>{live});
    DeviceBuffer<float> cos_sin(kTokens * 2 * kPairs);
    DeviceBuffer<int32_t> found_slots(kTokens);
    StepTablesArgs args;
    args.tokens = {device_live.get(), kTokens};
    args.positions = device_position.get();
    args.token_request = device_request.get();
    args.page_start = device_page_start.get();
    args.page_ids = device_page_ids.get();
    args.inv_freq = device_inv_freq.get();
    args.attention_scale = kScale;
    args.rotary_dim = 2 * kPairs;
    args.page_size = kPageSize;
    args.num_pages = kPages;
    args.cos_sin = cos_sin.get();
    args.slots = found_slots.get();
    ENCORE_GPU_OK(step_tables(args, launch_));
    sync();
    const std::vector<float> found = cos_sin.host();
    for (int32_t t = 0; t < kTokens; ++t) {
      EXPECT_EQ(found_slots.host()[t], t < live ? slots[t] : -1) << "token " << t;
      for (int32_t i = 0; i < kPairs; ++i) {
        const float* row = &found[t * 2 * kPairs];
        if (t >= live) {
          EXPECT_EQ(std::bit_cast<int32_t>(row[i]), kPoison32);
          continue;
        }
        const long double angle = static_cast<long double>(position[t]) * inv_freq[i];
        const auto cosine = static_cast<double>(std::cos(angle) * kScale);
        const auto sine = static_cast<double>(std::sin(angle) * kScale);
        // Half a unit in the last place of f32, and 2^-33 of the angle.
        EXPECT_NEAR(row[i], cosine, std::abs(cosine) * 0x1p-24 + 2e-10);
        EXPECT_NEAR(row[kPairs + i], sine, std::abs(sine) * 0x1p-24 + 2e-10);
      }
    }
  }
}

struct RopeCase {
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
  int32_t rotary_dim;
  RopePairing pairing;
  bool norms;
  Element element;
  int32_t page_size;
};

// One layer's inputs and what the kernel should make of them.
struct RopeProblem {
  static constexpr int32_t kTokens = 5;
  static constexpr int32_t kPages = 3;
  static constexpr float kEps = 0.1F;  // large enough to show

  explicit RopeProblem(const RopeCase& problem_case)
      : c(problem_case),
        heads(c.num_heads + 2 * c.num_kv_heads),
        stride(heads * c.head_dim + 8),
        qkv(random_bf16(static_cast<size_t>(kTokens) * stride, 11)),
        q_weight(random_bf16(c.head_dim, 12)),
        k_weight(random_bf16(c.head_dim, 13)),
        cos_sin(static_cast<size_t>(kTokens) * c.rotary_dim),
        slots{2 * c.page_size - 1, -1, 0, 3 * c.page_size - 2, c.page_size + 3} {
    std::mt19937 engine(14);
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    for (float& value : cos_sin) value = uniform(engine);
  }

  // Head `head` of `token`, normalised and rotated if it is a q or k head.
  std::vector<double> expected_head(int32_t token, int32_t head) const {
    const uint16_t* x = &qkv[static_cast<size_t>(token) * stride + head * c.head_dim];
    std::vector<double> y(c.head_dim);
    for (int32_t i = 0; i < c.head_dim; ++i) y[i] = from_bf16(x[i]);
    if (head >= c.num_heads + c.num_kv_heads) return y;
    if (c.norms) {
      double sum = 0.0;
      for (const double v : y) sum += v * v;
      const double inverse = 1.0 / std::sqrt(sum / c.head_dim + static_cast<double>(kEps));
      const auto& weight = head < c.num_heads ? q_weight : k_weight;
      for (int32_t i = 0; i < c.head_dim; ++i) y[i] *= inverse * from_bf16(weight[i]);
    }
    const int32_t pairs = c.rotary_dim / 2;
    for (int32_t i = 0; i < pairs; ++i) {
      const bool halves = c.pairing == RopePairing::kHalfSplit;
      double& a = y[halves ? i : 2 * i];
      double& b = y[halves ? i + pairs : 2 * i + 1];
      const double cosine = cos_sin[token * c.rotary_dim + i];
      const double sine = cos_sin[token * c.rotary_dim + pairs + i];
      const double first = a;
      a = first * cosine - b * sine;
      b = b * cosine + first * sine;
    }
    return y;
  }

  RopeCase c;
  int32_t heads;
  int32_t stride;
  std::vector<uint16_t> qkv;
  std::vector<uint16_t> q_weight;
  std::vector<uint16_t> k_weight;
  std::vector<float> cos_sin;
  std::vector<int32_t> slots;
};

// The cache's element `i` as f32.
float cache_value(const std::vector<uint8_t>& cache, Element element, int64_t i) {
  if (element == Element::kF32) {
    float value;
    std::memcpy(&value, &cache[i * 4], 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, &cache[i * 2], 2);
  if (element == Element::kBF16) return from_bf16(bits);
  const double magnitude = (bits & 0x7c00) == 0
                               ? std::ldexp(bits & 0x3ff, -24)
                               : std::ldexp((bits & 0x3ff) | 0x400, ((bits >> 10) & 31) - 25);
  return static_cast<float>((bits & 0x8000) != 0 ? -magnitude : magnitude);
}

// Rounding of the element, and f32 arithmetic before it: what is left of a difference of terms of
// size 10 is good to 1e-5.
double tolerance(Element element, double value) {
  const double rounding = element == Element::kBF16  ? 0.00392
                          : element == Element::kF16 ? 4.9e-4
                                                     : 0.0;
  return std::abs(value) * rounding + 1e-5;
}

void expect_qkv(const RopeProblem& p, const std::vector<uint16_t>& found, int32_t live) {
  for (int32_t t = 0; t < RopeProblem::kTokens; ++t) {
    for (int32_t i = 0; i < p.stride; ++i) {
      const size_t at = static_cast<size_t>(t) * p.stride + i;
      const int32_t head = i / p.c.head_dim;
      if (t >= live || head >= p.c.num_heads) {
        ASSERT_EQ(found[at], p.qkv[at]) << "token " << t << ", column " << i;
        continue;
      }
      const double expected = p.expected_head(t, head)[i % p.c.head_dim];
      ASSERT_NEAR(from_bf16(found[at]), expected, tolerance(Element::kBF16, expected))
          << "token " << t << ", head " << head << ", element " << i % p.c.head_dim;
    }
  }
}

void expect_cache(const RopeProblem& p, const KvLayout& layout, const std::vector<uint8_t>& cache,
                  int32_t live) {
  std::vector<bool> written(cache.size());
  const int32_t bytes = element_bytes(layout.element);
  for (int32_t t = 0; t < live; ++t) {
    if (p.slots[t] < 0) continue;
    for (int32_t half = 0; half < 2; ++half) {
      for (int32_t h = 0; h < p.c.num_kv_heads; ++h) {
        const auto expected = p.expected_head(t, p.c.num_heads + half * p.c.num_kv_heads + h);
        for (int32_t d = 0; d < p.c.head_dim; ++d) {
          const int64_t page = p.slots[t] / p.c.page_size;
          const int64_t offset = p.slots[t] % p.c.page_size;
          const int64_t at =
              (((page * 2 + half) * p.c.num_kv_heads + h) * p.c.page_size + offset) * p.c.head_dim +
              d;
          ASSERT_NEAR(cache_value(cache, layout.element, at), expected[d],
                      tolerance(layout.element, expected[d]))
              << "token " << t << ", half " << half << ", head " << h << ", element " << d;
          for (int32_t b = 0; b < bytes; ++b) written[at * bytes + b] = true;
        }
      }
    }
  }
  for (size_t i = 0; i < cache.size(); ++i) {
    ASSERT_TRUE(written[i] || cache[i] == 0xCD) << "byte " << i;
  }
}

TEST_P(RopeTest, QueriesTurnAndKeysAndValuesReachTheirPages) {
  constexpr auto kHalves = RopePairing::kHalfSplit;
  constexpr auto kAdjacent = RopePairing::kAdjacentPairs;
  const RopeCase cases[] = {
      {32, 8, 128, 128, kHalves, false, Element::kBF16, 64},
      {16, 2, 128, 128, kHalves, true, Element::kBF16, 16},
      {9, 3, 64, 64, kAdjacent, false, Element::kF16, 32},
      {3, 1, 96, 96, kHalves, true, Element::kF32, 16},
      {2, 2, 80, 32, kHalves, true, Element::kBF16, 16},
      {4, 1, 40, 24, kAdjacent, true, Element::kF16, 16},
      {4, 2, 24, 24, kHalves, false, Element::kBF16, 16},
      {2, 1, 16, 12, kAdjacent, true, Element::kF32, 16},
      {2, 1, 48, 6, kHalves, true, Element::kBF16, 16},
      {1, 1, 256, 256, kAdjacent, true, Element::kBF16, 16},
      {1, 1, 64, 0, kHalves, false, Element::kBF16, 16},
      {2, 1, 2 * launch_.lanes, 2, kHalves, true, Element::kBF16, 16},  // takes a whole warp
  };
  for (const RopeCase& c : cases) {
    const RopeProblem p(c);
    for (const int32_t live : {0, 1, 4, 5}) {
      SCOPED_TRACE(::testing::Message() << "head_dim " << c.head_dim << ", rotary_dim "
                                        << c.rotary_dim << ", " << live << " live");
      DeviceBuffer<uint16_t> qkv(p.qkv);
      DeviceBuffer<uint16_t> q_weight(p.q_weight);
      DeviceBuffer<uint16_t> k_weight(p.k_weight);
      DeviceBuffer<float> cos_sin(p.cos_sin);
      DeviceBuffer<int32_t> slots(p.slots);
      DeviceBuffer<int32_t> device_live(std::vector<int32_t>{live});
      RopeKvArgs args;
      args.tokens = {device_live.get(), RopeProblem::kTokens};
      args.qkv = qkv.get();
      args.qkv_stride = p.stride;
      if (c.norms) {
        args.q_norm_weight = q_weight.get();
        args.k_norm_weight = k_weight.get();
      }
      args.norm_eps = RopeProblem::kEps;
      args.pairing = c.pairing;
      args.num_heads = c.num_heads;
      args.rotary_dim = c.rotary_dim;
      args.cos_sin = cos_sin.get();
      args.slots = slots.get();
      args.kv.layout = {c.element, c.num_kv_heads, c.head_dim, c.page_size};
      args.kv.num_pages = RopeProblem::kPages;
      DeviceBuffer<uint8_t> cache(args.kv.num_pages * args.kv.layout.page_bytes());
      args.kv.data = reinterpret_cast<std::byte*>(cache.get());
      ENCORE_GPU_OK(rope_kv_write(args, launch_));
      sync();
      expect_qkv(p, qkv.host(), live);
      expect_cache(p, args.kv.layout, cache.host(), live);
    }
  }
}

// Tokens in their hundreds are spread over threads in another way.
TEST_P(RopeTest, AmongManyTokensTheBitsAreTheSame) {
  constexpr int32_t kMany = 520;
  constexpr int32_t kLive = 517;
  constexpr int32_t kPart = kMany / 8;
  // Units on 8 lanes and 3 of 4, heads that fill the threads and that do not; none or half rotated.
  for (const RopeCase& c :
       {RopeCase{32, 8, 128, 128, RopePairing::kHalfSplit, false, Element::kBF16, 16},
        {6, 2, 48, 16, RopePairing::kAdjacentPairs, true, Element::kF32, 32},
        {7, 1, 256, 128, RopePairing::kHalfSplit, true, Element::kF16, 16},
        {3, 3, 64, 0, RopePairing::kHalfSplit, true, Element::kBF16, 64}}) {
    SCOPED_TRACE(::testing::Message() << c.num_heads << " heads of " << c.head_dim);
    const int64_t stride = int64_t{c.num_heads + 2 * c.num_kv_heads} * c.head_dim + 8;
    const std::vector<uint16_t> qkv = random_bf16(kMany * stride, 21);
    std::vector<float> angles(static_cast<size_t>(kMany) * c.rotary_dim + 1);
    for (size_t i = 0; i < angles.size(); ++i) angles[i] = static_cast<float>(i % 251) / 125 - 1;
    std::vector<int32_t> slots(kMany);  // every one once, in another order; some none
    for (int32_t i = 0; i < kMany; ++i) slots[i] = i % 9 == 4 ? -1 : i * 7 % kMany;
    DeviceBuffer<uint16_t> weight(random_bf16(c.head_dim, 22));
    DeviceBuffer<float> cos_sin(angles);
    DeviceBuffer<int32_t> device_slots(slots);
    DeviceBuffer<int32_t> live(std::vector<int32_t>{kLive});
    std::vector<int32_t> part_live;
    for (int32_t first = 0; first < kMany; first += kPart)
      part_live.push_back(std::min(kLive - first, kPart));
    DeviceBuffer<int32_t> parts(part_live);
    RopeKvArgs args;
    args.qkv_stride = stride;
    args.q_norm_weight = args.k_norm_weight = c.norms ? weight.get() : nullptr;
    args.norm_eps = 0.1F;
    args.pairing = c.pairing;
    args.num_heads = c.num_heads;
    args.rotary_dim = c.rotary_dim;
    args.kv.layout = {c.element, c.num_kv_heads, c.head_dim, c.page_size};
    args.kv.num_pages = kMany / c.page_size + 1;
    const int64_t bytes = args.kv.num_pages * args.kv.layout.page_bytes();
    DeviceBuffer<uint8_t> many_cache(bytes);
    DeviceBuffer<uint8_t> few_cache(bytes);
    DeviceBuffer<uint16_t> many(qkv);
    DeviceBuffer<uint16_t> few(qkv);
    const auto rope = [&](DeviceBuffer<uint16_t>& x, DeviceBuffer<uint8_t>& cache, int32_t first,
                          const LiveRows& tokens) {
      args.tokens = tokens;
      args.qkv = x.get() + first * stride;
      args.cos_sin = cos_sin.get() + int64_t{first} * c.rotary_dim;
      args.slots = device_slots.get() + first;
      args.kv.data = reinterpret_cast<std::byte*>(cache.get());
      ENCORE_GPU_OK(rope_kv_write(args, launch_));
    };
    rope(many, many_cache, 0, {live.get(), kMany});
    for (int32_t i = 0; i < kMany / kPart; ++i)
      rope(few, few_cache, i * kPart, {parts.get() + i, kPart});
    sync();
    EXPECT_NE(many.host(), qkv);
    EXPECT_EQ(many.host(), few.host());
    EXPECT_EQ(many_cache.host(), few_cache.host());
  }
}

TEST_P(RopeTest, BadSizesAreRefused) {
  RopeKvArgs args;
  args.tokens.maximum = 1;
  args.num_heads = 1;
  args.kv.layout = {Element::kBF16, 1, 64, 16};
  for (const int32_t rotary_dim : {-2, 7, 66}) {
    args.rotary_dim = rotary_dim;
    EXPECT_EQ(rope_kv_write(args, launch_), gpuErrorInvalidValue);
  }
  args.rotary_dim = 8;
  args.kv.layout.head_dim = 12;
  EXPECT_EQ(rope_kv_write(args, launch_), gpuErrorInvalidValue);
  args.rotary_dim = 2;  // two elements a lane
  args.kv.layout.head_dim = 4 * launch_.lanes;
  EXPECT_EQ(rope_kv_write(args, launch_), gpuErrorInvalidValue);
}

}  // namespace
}  // namespace encore::gpu::testing
