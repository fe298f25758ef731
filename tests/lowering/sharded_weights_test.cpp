// Each rank's part of a model's weights, and divisions that are refused.
#include "encore/lowering/sharded_weights.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "random_model.h"

namespace encore::lowering {
namespace {

using testing::RandomWeights;
using testing::small_spec;

std::vector<std::byte> read_all(const WeightSource& source, const std::string& name) {
  const int64_t index = find_weight(source, name);
  EXPECT_GE(index, 0) << name;
  if (index < 0) return {};
  const auto at = static_cast<size_t>(index);
  std::vector<std::byte> data(static_cast<size_t>(source.weights()[at].bytes));
  const Status status = source.read(at, 0, data);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return data;
}

// Rows [begin, begin + rows) and bytes [from, from + width) of each.
std::vector<std::byte> cut(const std::vector<std::byte>& whole, size_t row_bytes, size_t begin,
                           size_t rows, size_t from, size_t width) {
  std::vector<std::byte> part;
  for (size_t row = begin; row < begin + rows; ++row) {
    const auto start = whole.begin() + static_cast<std::ptrdiff_t>(row * row_bytes + from);
    part.insert(part.end(), start, start + static_cast<std::ptrdiff_t>(width));
  }
  return part;
}

class ShardedParts : public ::testing::TestWithParam<std::tuple<DType, bool>> {
 protected:
  DType dtype() const { return std::get<0>(GetParam()); }
  bool mappable() const { return std::get<1>(GetParam()); }
  size_t width(int64_t columns) const { return static_cast<size_t>(row_bytes(dtype(), columns)); }
};

TEST_P(ShardedParts, AreTheRowsAndColumnsOfTheRank) {
  const ModelSpec spec = small_spec();
  const RandomWeights source(spec, dtype(), mappable());
  for (int32_t rank = 0; rank < 4; ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    auto part = ShardedWeights::create(source, spec, {rank, 4});
    ASSERT_TRUE(part.ok()) << part.status().to_string();
    const auto r = static_cast<size_t>(rank);
    const auto whole = [&](const char* name) { return read_all(source, name); };
    EXPECT_EQ(read_all(**part, "layers.1.q.weight"),
              cut(whole("layers.1.q.weight"), width(64), r * 32, 32, 0, width(64)));
    // Two ranks share a KV head.
    EXPECT_EQ(read_all(**part, "layers.1.v.weight"),
              cut(whole("layers.1.v.weight"), width(64), r / 2 * 32, 32, 0, width(64)));
    EXPECT_EQ(read_all(**part, "layers.0.k.bias"),
              cut(whole("layers.0.k.bias"), 4, r / 2 * 32, 32, 0, 4));
    EXPECT_EQ(read_all(**part, "layers.0.o.weight"),
              cut(whole("layers.0.o.weight"), width(128), 0, 64, r * width(32), width(32)));
    EXPECT_EQ(read_all(**part, "layers.1.down.weight"),
              cut(whole("layers.1.down.weight"), width(128), 0, 64, r * width(32), width(32)));
    EXPECT_EQ(read_all(**part, "layers.1.up.weight"),
              cut(whole("layers.1.up.weight"), width(64), r * 32, 32, 0, width(64)));
    EXPECT_EQ(read_all(**part, "head.weight"),
              cut(whole("head.weight"), width(64), r * 64, 64, 0, width(64)));
    EXPECT_EQ(read_all(**part, "embed.weight"), whole("embed.weight"));
    EXPECT_EQ(read_all(**part, "layers.0.q_norm.weight"), whole("layers.0.q_norm.weight"));
    const std::vector<std::byte> zeros(64 * sizeof(float));
    EXPECT_EQ(read_all(**part, "layers.0.down.bias"),
              rank == 0 ? whole("layers.0.down.bias") : zeros);
  }
}

TEST_P(ShardedParts, CanBeReadInPieces) {
  const ModelSpec spec = small_spec();
  const RandomWeights source(spec, dtype(), mappable());
  auto part = ShardedWeights::create(source, spec, {1, 2});
  ASSERT_TRUE(part.ok());
  const auto index = static_cast<size_t>(find_weight(**part, "layers.0.down.weight"));
  const std::vector<std::byte> whole = read_all(**part, "layers.0.down.weight");
  for (const size_t piece : {size_t{1}, size_t{67}, size_t{300}}) {
    std::vector<std::byte> found(whole.size());
    for (size_t at = 0; at < whole.size(); at += piece) {
      const size_t count = std::min(piece, whole.size() - at);
      ASSERT_TRUE(
          (*part)->read(index, static_cast<int64_t>(at), std::span(found).subspan(at, count)).ok());
    }
    EXPECT_EQ(found, whole) << "pieces of " << piece;
  }
  std::byte beyond{};
  EXPECT_EQ((*part)->read(index, static_cast<int64_t>(whole.size()), {&beyond, 1}).code(),
            StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Sources, ShardedParts,
                         ::testing::Combine(::testing::Values(DType::kF32, DType::kQ8_0),
                                            ::testing::Bool()));

TEST(ShardedWeights, ATiedHeadIsAWeightOfItsOwn) {
  ModelSpec spec = small_spec();
  spec.tied_embeddings = true;
  const RandomWeights source(spec, DType::kF32);
  auto part = ShardedWeights::create(source, spec, {1, 2});
  ASSERT_TRUE(part.ok());
  EXPECT_FALSE(shard_spec(spec, {1, 2})->tied_embeddings);
  EXPECT_EQ(read_all(**part, "head.weight"),
            cut(read_all(source, "embed.weight"), 256, 128, 128, 0, 256));
}

// 136 rows each: the second rank has 124 of the 260.
TEST(ShardedWeights, ZerosFollowAVocabularyThatDividesUnevenly) {
  ModelSpec spec = small_spec();
  spec.vocab_size = 260;
  const RandomWeights source(spec, DType::kF32);
  auto part = ShardedWeights::create(source, spec, {1, 2});
  ASSERT_TRUE(part.ok());
  const auto index = static_cast<size_t>(find_weight(**part, "head.weight"));
  EXPECT_EQ((*part)->weights()[index].shape[0], 136);
  EXPECT_EQ((*part)->map(index), nullptr);
  std::vector<std::byte> expected = cut(read_all(source, "head.weight"), 256, 136, 124, 0, 256);
  expected.resize(size_t{136} * 256);
  EXPECT_EQ(read_all(**part, "head.weight"), expected);
  std::vector<std::byte> across(512);
  ASSERT_TRUE((*part)->read(index, 124 * 256 - 256, across).ok());
  EXPECT_TRUE(std::equal(across.begin(), across.end(), expected.begin() + 124 * 256 - 256));
  auto first = ShardedWeights::create(source, spec, {0, 2});
  ASSERT_TRUE(first.ok());
  EXPECT_NE((*first)->map(static_cast<size_t>(find_weight(**first, "head.weight"))), nullptr);
}

void expect_refused(const Status& status, std::initializer_list<const char*> numbers) {
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  for (const char* number : numbers) {
    EXPECT_NE(status.message().find(number), std::string::npos) << status.message();
  }
}

TEST(ShardSpec, ImpossibleDivisionsAreRefusedWithTheNumbers) {
  ModelSpec spec = small_spec();
  spec.num_heads = 6;
  expect_refused(shard_spec(spec, {0, 4}).status(), {"num_heads", "6", "4"});
  spec = small_spec();
  spec.num_heads = 12;
  spec.num_kv_heads = 4;
  expect_refused(shard_spec(spec, {0, 6}).status(), {"num_kv_heads", "4", "6"});
  spec = small_spec();
  spec.intermediate_size = 130;
  expect_refused(shard_spec(spec, {0, 4}).status(), {"intermediate_size", "130", "4"});
}

TEST(ShardedWeights, ABlockOfAQuantisedTypeIsNotCut) {
  ModelSpec spec = small_spec();
  spec.intermediate_size = 96;
  const RandomWeights source(spec, DType::kQ8_0);
  expect_refused(ShardedWeights::create(source, spec, {0, 2}).status(),
                 {"layers.0.down.weight", "96", "q8_0", "32", "48"});
}

}  // namespace
}  // namespace encore::lowering
