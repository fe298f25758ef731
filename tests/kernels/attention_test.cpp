#include "kernels/cpu/attention.h"

#include <gtest/gtest.h>

#include <memory>

#include "attention_test_support.h"

namespace encore::kernels {
namespace {

constexpr AttentionShape kSmol = {WeightType::kBF16, 9, 3, 64, 16};

const AttentionShape kShapes[] = {
    kSmol,
    {WeightType::kF32, 9, 3, 64, 16},
    {WeightType::kF16, 4, 4, 128, 32},
    {WeightType::kF32, 8, 1, 80, 64},
    {WeightType::kBF16, 14, 2, 24, 16},
    {WeightType::kF16, 2, 2, 8, 16},
    {WeightType::kF32, 4, 2, 256, 16},
    {WeightType::kBF16, 32, 1, 72, 64},
};

class AttentionTest : public testing::TestWithParam<IsaLevel> {};

// Expects rows of `chunk` at `rows` to be near the double reference.
void expect_near_reference(const AttentionWorld& world, const Chunk& chunk, const float* rows) {
  constexpr double kTolerance = 2e-5;  // values are up to 2, so 10 units of their f32 rounding
  const int32_t width = world.shape().q_size();
  double worst = 0.0;
  for (int32_t token = chunk.begin; token < chunk.end; ++token, rows += width) {
    const std::vector<double> expected = world.expected(chunk.request, token);
    for (int32_t i = 0; i < width; ++i) {
      const double error = std::abs(static_cast<double>(rows[i]) - expected[i]);
      worst = error <= worst ? worst : error;  // keeps NaN
    }
  }
  EXPECT_LE(worst, kTolerance) << "request " << chunk.request;
}

TEST_P(AttentionTest, AgreesWithDoubleForAnyShape) {
  for (const AttentionShape& shape : kShapes) {
    SCOPED_TRACE(testing::Message()
                 << "head_dim " << shape.head_dim << ", heads " << shape.num_heads << "/"
                 << shape.num_kv_heads << ", page_size " << shape.page_size << ", type "
                 << static_cast<int>(shape.type));
    AttentionWorld world(shape, {1, 40, 300, 77}, 7);
    const std::vector<Chunk> chunks = {{0, 0, 1}, {1, 0, 40}, {2, 299, 300}, {3, 50, 77}};
    const std::vector<float> out = world.run(GetParam(), chunks, 2);
    const float* rows = out.data();
    for (const Chunk& chunk : chunks) {
      expect_near_reference(world, chunk, rows);
      rows += static_cast<int64_t>(chunk.end - chunk.begin) * shape.q_size();
    }
  }
}

TEST_P(AttentionTest, AgreesWithDoubleAtLongContext) {
  AttentionWorld world(kSmol, {5000}, 11);
  for (const int32_t threads : {1, 2, 3, 5}) {
    const std::vector<Chunk> chunks = {{0, 4999, 5000}};
    expect_near_reference(world, chunks[0], world.run(GetParam(), chunks, threads).data());
  }
}

TEST_P(AttentionTest, HugeScoresStayFinite) {
  AttentionShape shape = kSmol;
  shape.type = WeightType::kF32;
  AttentionWorld world(shape, {600}, 3);
  world.scale_queries(500.0F);
  const std::vector<Chunk> chunks = {{0, 560, 600}};
  const std::vector<float> out = world.run(GetParam(), chunks, 2);
  for (const float x : out) ASSERT_LE(std::abs(x), 2.0001F);
}

TEST_P(AttentionTest, ChunkingDoesNotChangeBits) {
  for (const AttentionShape& shape : {kSmol, kShapes[3], kShapes[4]}) {
    AttentionWorld world(shape, {700}, 23);
    const int32_t width = shape.q_size();
    const std::vector<float> whole = world.run(GetParam(), {{0, 0, 700}}, 2);
    for (const std::vector<int32_t>& cuts : {std::vector<int32_t>{0, 1, 8, 72, 500, 700},
                                             std::vector<int32_t>{0, 255, 257, 699, 700}}) {
      for (size_t i = 0; i + 1 < cuts.size(); ++i) {
        const std::vector<float> part = world.run(GetParam(), {{0, cuts[i], cuts[i + 1]}}, 1);
        EXPECT_TRUE(same_bits(part.data(), whole.data() + static_cast<int64_t>(cuts[i]) * width,
                              part.size()))
            << "tokens " << cuts[i] << " to " << cuts[i + 1];
      }
    }
    for (const int32_t token : {0, 1, 15, 16, 255, 256, 257, 511, 512, 640, 699}) {
      const std::vector<float> one = world.run(GetParam(), {{0, token, token + 1}}, 2);
      EXPECT_TRUE(
          same_bits(one.data(), whole.data() + static_cast<int64_t>(token) * width, one.size()))
          << "token " << token;
    }
  }
}

TEST_P(AttentionTest, CompanyAndThreadsDoNotChangeBits) {
  AttentionWorld world(kSmol, {900, 33, 257, 1, 640, 1700}, 31);
  const std::vector<Chunk> chunks = {{0, 899, 900}, {1, 0, 33},    {2, 250, 257},
                                     {3, 0, 1},     {4, 100, 640}, {5, 1696, 1700}};
  std::vector<float> alone;
  for (const Chunk& chunk : chunks) {
    const std::vector<float> rows = world.run(GetParam(), {chunk}, 1);
    alone.insert(alone.end(), rows.begin(), rows.end());
  }
  for (const int32_t threads : {1, 2, 3, 7}) {
    const std::vector<float> together = world.run(GetParam(), chunks, threads);
    ASSERT_EQ(together.size(), alone.size());
    EXPECT_TRUE(same_bits(together.data(), alone.data(), alone.size())) << threads << " threads";
  }
  std::vector<Chunk> reversed(chunks.rbegin(), chunks.rend());
  const std::vector<float> last_first = world.run(GetParam(), reversed, 3);
  const size_t width = kSmol.q_size();
  EXPECT_TRUE(same_bits(last_first.data() + last_first.size() - width, alone.data(), width));
}

TEST_P(AttentionTest, NoRequestsTouchNothing) {
  AttentionWorld world(kSmol, {4}, 1);
  EXPECT_TRUE(world.run(GetParam(), {}, 2).empty());
}

INSTANTIATE_TEST_SUITE_P(Levels, AttentionTest, testing::ValuesIn(ops_levels()), LevelName());

}  // namespace
}  // namespace encore::kernels
