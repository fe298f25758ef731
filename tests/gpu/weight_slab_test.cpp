#include "weight_slab.h"

#include <gtest/gtest.h>

#include <array>

#include "fake_weights.h"

namespace encore::gpu {
namespace {

using testing::FakeWeights;

Result<WeightSlab::Place> place(WeightSlab& slab, std::initializer_list<size_t> weights) {
  return slab.place(std::span(weights.begin(), weights.size()));
}

void expect_place(WeightSlab& slab, std::initializer_list<size_t> weights, int64_t offset,
                  bool fresh) {
  const Result<WeightSlab::Place> found = place(slab, weights);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->offset, offset);
  EXPECT_EQ(found->fresh, fresh);
}

TEST(WeightSlabTest, StacksLieTogetherAndStartAligned) {
  FakeWeights source;
  source.add("norm", DType::kF32, {24});      // 48 bytes as bf16
  source.add("q", DType::kBF16, {8, 24});     // 384
  source.add("k", DType::kF16, {2, 24});      // 96
  source.add("v", DType::kF32, {3, 24});      // 144
  source.add("head", DType::kQ8_0, {5, 32});  // 320
  EXPECT_EQ(WeightSlab::bytes(source), 256 + 512 + 256 + 256 + 512);
  WeightSlab slab(source);
  expect_place(slab, {0}, 0, true);
  expect_place(slab, {1, 2, 3}, 256, true);  // 624 bytes: the next starts at 1024
  expect_place(slab, {4}, 1024, true);
}

TEST(WeightSlabTest, TheSameWeightsKeepTheirPlace) {
  FakeWeights source;
  source.add("embed", DType::kBF16, {8, 16});
  source.add("gate", DType::kBF16, {8, 16});
  source.add("up", DType::kBF16, {8, 16});
  WeightSlab slab(source);
  expect_place(slab, {0}, 0, true);
  expect_place(slab, {1, 2}, 256, true);
  expect_place(slab, {0}, 0, false);  // tied embeddings
  expect_place(slab, {1, 2}, 256, false);
  expect_place(slab, {2}, 512, false);
  EXPECT_EQ(place(slab, {2, 1}).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(place(slab, {0, 2}).status().code(), StatusCode::kFailedPrecondition);
}

TEST(WeightSlabTest, SlabHoldsAnyStacking) {
  FakeWeights source;
  for (int i = 0; i < 9; ++i) {
    source.add("w", DType::kBF16, {i + 1, 8});
  }
  WeightSlab slab(source);
  int64_t end = 0;
  for (size_t i = 0; i < 9; i += 3) {
    const std::array<size_t, 3> stack = {i, i + 1, i + 2};
    const Result<WeightSlab::Place> found = slab.place(stack);
    ASSERT_TRUE(found.ok());
    EXPECT_GE(found->offset, end);
    end = found->offset;
    for (const size_t weight : stack) end += bf16_bytes(source.weights()[weight]);
  }
  EXPECT_LE(end, WeightSlab::bytes(source));
}

TEST(WeightSlabTest, ImpossibleStacksAreRefused) {
  FakeWeights source;
  source.add("a", DType::kBF16, {8, 16});
  source.add("narrow", DType::kBF16, {8, 8});
  source.add("odd", DType::kBF16, {3});
  source.add("bias", DType::kBF16, {8});
  source.add("ids", DType::kI32, {8, 16});
  WeightSlab slab(source);
  EXPECT_EQ(place(slab, {}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(place(slab, {5}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(place(slab, {0, 1}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(place(slab, {0, 0}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(place(slab, {2, 3}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(place(slab, {4}).status().code(), StatusCode::kUnimplemented);
  // None of it took any place.
  expect_place(slab, {3, 2}, 0, true);
}

TEST(WeightSlabTest, AFailedStackLeavesItsOtherWeightsFree) {
  FakeWeights source;
  source.add("a", DType::kBF16, {8, 16});
  source.add("b", DType::kBF16, {8, 16});
  WeightSlab slab(source);
  expect_place(slab, {1}, 0, true);
  EXPECT_EQ(place(slab, {0, 1}).status().code(), StatusCode::kFailedPrecondition);
  expect_place(slab, {0}, 256, true);
}

}  // namespace
}  // namespace encore::gpu
