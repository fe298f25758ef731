// Decode attention that does the rotation and the KV write too: the bits of the two kernels.
#include <gtest/gtest.h>

#include "attention_test_support.h"
#include "kernels/gpu/rope.h"

namespace encore::gpu::testing {
namespace {

struct RopeAttentionCase {
  AttentionShape shape;
  int32_t rotary_dim;
  bool norms = false;
  RopePairing pairing = RopePairing::kHalfSplit;
  int32_t num_processors = kOnCpu ? 24 : 132;
};

// One request that brings its last token, on pages in no order.
class RopeAttentionStep {
 public:
  RopeAttentionStep(const RopeAttentionCase& which, AttentionPath path, int32_t kv_len)
      : case_(which), path_(path), kv_len_(kv_len) {
    const KvLayout& layout = which.shape.kv;
    for (int32_t i = 0; i < num_pages_ - 1; ++i) ids_.push_back((i * 5 + 3) % (num_pages_ - 1));
    page_ids_.put(ids_);
    pages_ = random_bf16(static_cast<size_t>(num_pages_ * layout.page_bytes() / 2), 31);
    poison_new_row();
    workspace_.fill(0xFF);
    for (DeviceBuffer<uint16_t>* cache : {&caches_[0], &caches_[1]}) cache->put(pages_);
    for (DeviceBuffer<uint16_t>* qkv : {&qkv_[0], &qkv_[1]}) qkv->put(made_qkv_);
  }

  LaunchError plan(const Launch& launch) {
    StepTablesArgs args;
    args.tokens = {live_.get(), 1};
    args.positions = position_.get();
    args.token_request = zero_.get();
    args.page_start = page_start_.get();
    args.page_ids = page_ids_.get();
    args.inv_freq = inv_freq_.get();
    args.rotary_dim = case_.rotary_dim;
    args.page_size = case_.shape.kv.page_size;
    args.num_pages = num_pages_;
    args.cos_sin = cos_sin_.get();
    args.slots = slot_.get();
    if (const LaunchError error = step_tables(args, launch)) return error;
    return attention_plan(case_.shape, bounds_, path_, inputs(), workspace_.get(), launch);
  }
  LaunchError apart(const Launch& launch) {
    if (const LaunchError error = rope_kv_write(rope(0), launch)) return error;
    return attention_run(case_.shape, bounds_, path_, attention(0), launch);
  }
  LaunchError together(const Launch& launch) {
    return rope_attention_run(case_.shape, bounds_, path_, rope(1), attention(1), launch);
  }

  // The bits of together() are those of apart(), which wrote something.
  void compare() {
    const std::vector<uint16_t> y = y_[0].host();
    ASSERT_TRUE(std::ranges::none_of(y, [](uint16_t bits) { return std::isnan(from_bf16(bits)); }));
    ASSERT_NE(y, std::vector<uint16_t>(y.size(), 0xCDCD));
    ASSERT_EQ(y_[1].host(), y);
    const std::vector<uint16_t> cache = caches_[0].host();
    ASSERT_NE(cache, pages_);
    ASSERT_EQ(caches_[1].host(), cache);
    ASSERT_EQ(qkv_[1].host(), made_qkv_);
  }

  void set_live(int32_t live) { live_.put(std::vector<int32_t>{live}); }
  void expect_untouched() {
    EXPECT_EQ(y_[1].host(), std::vector<uint16_t>(static_cast<size_t>(q_row_), 0xCDCD));
    EXPECT_EQ(caches_[1].host(), pages_);
    EXPECT_EQ(qkv_[1].host(), made_qkv_);
  }

  RopeKvArgs rope(size_t i) {
    RopeKvArgs args;
    args.tokens = {live_.get(), 1};
    args.qkv = qkv_[i].get();
    args.qkv_stride = row_;
    if (case_.norms) {
      args.q_norm_weight = q_norm_.get();
      args.k_norm_weight = k_norm_.get();
    }
    args.norm_eps = 0.1F;
    args.pairing = case_.pairing;
    args.num_heads = case_.shape.num_heads;
    args.rotary_dim = case_.rotary_dim;
    args.cos_sin = cos_sin_.get();
    args.slots = slot_.get();
    args.kv = kv(i);
    return args;
  }
  const AttentionBounds& bounds() const { return bounds_; }

 private:
  AttentionInputs inputs() {
    return {live_.get(), q_start_.get(), kv_len_device_.get(), page_start_.get(), page_ids_.get()};
  }
  KvPages kv(size_t i) {
    return {reinterpret_cast<std::byte*>(caches_[i].get()), num_pages_, case_.shape.kv};
  }
  AttentionArgs attention(size_t i) {
    AttentionArgs args;
    args.inputs = inputs();
    args.kv = kv(i);
    args.q = qkv_[i].get();
    args.q_stride = row_;
    args.y = y_[i].get();
    args.y_stride = q_row_;
    args.scale = 0.2F;
    args.workspace = workspace_.get();
    return args;
  }
  // What the new key and value go over, and all behind them, is NaN.
  void poison_new_row() {
    const KvLayout& layout = case_.shape.kv;
    const int32_t last = kv_len_ - 1;
    for (int64_t plane = 0; plane < 2 * layout.num_kv_heads; ++plane) {
      const int64_t head = ids_[last / layout.page_size] * 2 * layout.half_elements() +
                           plane * layout.head_elements();
      std::fill(pages_.begin() + head + last % layout.page_size * layout.head_dim,
                pages_.begin() + head + layout.head_elements(), 0x7FFF);
    }
  }

  RopeAttentionCase case_;
  AttentionPath path_;
  int32_t kv_len_;
  AttentionBounds bounds_{1, 1, true, case_.num_processors};
  int32_t num_pages_ =
      (kv_len_ + case_.shape.kv.page_size - 1) / case_.shape.kv.page_size / 5 * 5 + 7;
  int32_t q_row_ = case_.shape.num_heads * case_.shape.kv.head_dim;
  int32_t row_ = q_row_ + 2 * case_.shape.kv.num_kv_heads * case_.shape.kv.head_dim;
  std::vector<int32_t> ids_;
  std::vector<uint16_t> pages_;
  std::vector<uint16_t> made_qkv_ = random_bf16(static_cast<size_t>(row_), 32);
  DeviceBuffer<int32_t> live_{std::vector<int32_t>{1}};
  DeviceBuffer<int32_t> zero_{std::vector<int32_t>{0}};
  DeviceBuffer<int32_t> position_{std::vector<int32_t>{kv_len_ - 1}};
  DeviceBuffer<int32_t> q_start_{std::vector<int32_t>{0, 1}};
  DeviceBuffer<int32_t> kv_len_device_{std::vector<int32_t>{kv_len_}};
  DeviceBuffer<int32_t> page_start_{std::vector<int32_t>{0, num_pages_ - 1}};
  DeviceBuffer<int32_t> page_ids_{static_cast<size_t>(num_pages_ - 1)};
  DeviceBuffer<int32_t> slot_{1};
  DeviceBuffer<float> inv_freq_{std::vector<float>(64, 0.037F)};
  DeviceBuffer<float> cos_sin_{128};
  DeviceBuffer<uint16_t> q_norm_{random_bf16(static_cast<size_t>(case_.shape.kv.head_dim), 33)};
  DeviceBuffer<uint16_t> k_norm_{random_bf16(static_cast<size_t>(case_.shape.kv.head_dim), 34)};
  DeviceBuffer<std::byte> workspace_{attention_workspace_bytes(case_.shape, bounds_, path_)};
  DeviceBuffer<uint16_t> qkv_[2] = {DeviceBuffer<uint16_t>(made_qkv_.size()),
                                    DeviceBuffer<uint16_t>(made_qkv_.size())};
  DeviceBuffer<uint16_t> caches_[2] = {DeviceBuffer<uint16_t>(cache_elements()),
                                       DeviceBuffer<uint16_t>(cache_elements())};
  DeviceBuffer<uint16_t> y_[2] = {DeviceBuffer<uint16_t>(static_cast<size_t>(q_row_)),
                                  DeviceBuffer<uint16_t>(static_cast<size_t>(q_row_))};

  size_t cache_elements() const {
    return static_cast<size_t>(num_pages_ * case_.shape.kv.page_bytes() / 2);
  }
};

class RopeAttentionTest : public GpuTest, public ::testing::WithParamInterface<AttentionPath> {
 protected:
  void check(const RopeAttentionCase& which, std::initializer_list<int32_t> kv_lens) {
    if (!has_path(which.shape, GetParam())) GTEST_SKIP() << "not a path of this device";
    for (const int32_t kv_len : kv_lens) {
      SCOPED_TRACE(::testing::Message()
                   << which.shape.num_heads << " heads, " << which.shape.kv.num_kv_heads
                   << " KV heads of " << which.shape.kv.head_dim << ", " << kv_len << " keys");
      RopeAttentionStep step(which, GetParam(), kv_len);
      ENCORE_GPU_OK(step.plan(launch_));
      ENCORE_GPU_OK(step.apart(launch_));
      ENCORE_GPU_OK(step.together(launch_));
      sync();
      step.compare();
      if (HasFatalFailure()) return;
    }
  }
};

TEST_P(RopeAttentionTest, NewKeysInEveryPlaceOfATile) {
  check({make_shape(8, 2, 64, 16), 64}, {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65});
}

TEST_P(RopeAttentionTest, ClustersAndPieces) {
  check({make_shape(8, 2, 128, 64), 128}, {127, 128, 129, 1000});
  RopeAttentionCase pieces{make_shape(4, 1, 64, 16), 64};
  check(pieces, {2047, 2048, 4097});
  pieces.num_processors = 1;
  check(pieces, {300, 4096});
}

TEST_P(RopeAttentionTest, GroupsWiderAndNarrowerThanABlock) {
  for (const int32_t group : {1, 7, 8, 9, 16}) check({make_shape(2 * group, 2, 64, 16), 64}, {100});
}

TEST_P(RopeAttentionTest, NormsPairingsAndPartialRotation) {
  constexpr auto kAdjacent = RopePairing::kAdjacentPairs;
  check({make_shape(6, 2, 128, 16), 128, true}, {77});
  check({make_shape(6, 3, 96, 32), 96, true}, {32, 200});
  check({make_shape(4, 2, 64, 16), 64, false, kAdjacent}, {77});
  check({make_shape(4, 2, 128, 16), 32, true, kAdjacent}, {77});
  check({make_shape(4, 2, 96, 16), 48}, {77});
  check({make_shape(4, 2, 64, 16), 0}, {77});
}

TEST_P(RopeAttentionTest, AStepWithoutARequestWritesNothing) {
  const RopeAttentionCase which{make_shape(4, 2, 64, 16), 64};
  if (!has_path(which.shape, GetParam())) GTEST_SKIP() << "not a path of this device";
  RopeAttentionStep step(which, GetParam(), 40);
  step.set_live(0);
  ENCORE_GPU_OK(step.plan(launch_));
  ENCORE_GPU_OK(step.together(launch_));
  sync();
  step.expect_untouched();
}

TEST_P(RopeAttentionTest, OtherStepsAreRefused) {
  const RopeAttentionCase which{make_shape(4, 2, 64, 16), 64};
  RopeAttentionStep step(which, GetParam(), 40);
  const RopeKvArgs rope = step.rope(0);
  const AttentionBounds bounds = step.bounds();
  const AttentionPath path = GetParam();
  EXPECT_TRUE(rope_attention_serves(which.shape, bounds, path, rope));
  AttentionBounds two = bounds;
  two.max_requests = two.max_tokens = 2;  // one may read the page that the other writes
  EXPECT_FALSE(rope_attention_serves(which.shape, two, path, rope));
  EXPECT_EQ(rope_attention_run(which.shape, two, path, rope, {}, launch_), gpuErrorInvalidValue);
  AttentionBounds mixed = bounds;
  mixed.decode_only = false;
  EXPECT_FALSE(rope_attention_serves(which.shape, mixed, path, rope));
  EXPECT_FALSE(rope_attention_serves(which.shape, bounds, AttentionPath::kPlain, rope));
  EXPECT_FALSE(rope_attention_serves(make_shape(4, 2, 64, 16, Element::kF16), bounds, path, rope));
  for (const int32_t rotary_dim : {-16, 24, 80}) {
    RopeKvArgs other = rope;
    other.rotary_dim = rotary_dim;
    EXPECT_FALSE(rope_attention_serves(which.shape, bounds, path, other)) << rotary_dim;
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, RopeAttentionTest,
                         ::testing::Values(AttentionPath::kTensor, AttentionPath::kHopper));

}  // namespace
}  // namespace encore::gpu::testing
