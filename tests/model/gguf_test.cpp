#include "model/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "test_files.h"

namespace encore {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kHuge = uint64_t{1} << 62;

Result<GgufHeader> read_back(const std::string& content) {
  const TempFolder folder;
  auto file = MappedFile::open(folder.write("m.gguf", content));
  if (!file.ok()) return file.status();
  return read_gguf_header(**file);
}

// The error's text; "" if there is none.
std::string refusal(const std::string& content) {
  const auto header = read_back(content);
  return header.ok() ? "" : header.status().to_string();
}

std::string zeros(size_t bytes) { return std::string(bytes, '\0'); }

TEST(GgufTest, ReadsEveryScalarType) {
  GgufWriter writer;
  writer.raw("u8", 0, bytes_of<uint8_t>(200))
      .raw("i8", 1, bytes_of<int8_t>(-3))
      .raw("u16", 2, bytes_of<uint16_t>(60000))
      .raw("i16", 3, bytes_of<int16_t>(-30000))
      .u32("u32", 4000000000U)
      .raw("i32", 5, bytes_of<int32_t>(-5))
      .f32("f32", 1.5F)
      .raw("bool", 7, bytes_of<uint8_t>(1))
      .text("text", "h\xC3\xA9")
      .raw("u64", 10, bytes_of<uint64_t>(UINT64_MAX))
      .raw("i64", 11, bytes_of<int64_t>(INT64_MIN))
      .raw("f64", 12, bytes_of<double>(0.1));
  const auto header = read_back(writer.finish());
  ASSERT_TRUE(header.ok()) << header.status().to_string();
  const GgufMetadata& m = header->metadata;
  EXPECT_EQ(m.at("u8"), GgufValue(uint64_t{200}));
  EXPECT_EQ(m.at("i8"), GgufValue(int64_t{-3}));
  EXPECT_EQ(m.at("u16"), GgufValue(uint64_t{60000}));
  EXPECT_EQ(m.at("i16"), GgufValue(int64_t{-30000}));
  EXPECT_EQ(m.at("u32"), GgufValue(uint64_t{4000000000}));
  EXPECT_EQ(m.at("i32"), GgufValue(int64_t{-5}));
  EXPECT_EQ(m.at("f32"), GgufValue(1.5));
  EXPECT_EQ(m.at("bool"), GgufValue(true));
  EXPECT_EQ(m.at("text"), GgufValue(std::string("h\xC3\xA9")));
  EXPECT_EQ(m.at("u64"), GgufValue(UINT64_MAX));
  EXPECT_EQ(m.at("i64"), GgufValue(INT64_MIN));
  EXPECT_EQ(m.at("f64"), GgufValue(0.1));
}

TEST(GgufTest, ReadsArraysAndStepsOverNestedOnes) {
  const std::string inner =
      bytes_of<uint32_t>(8) + bytes_of<uint64_t>(1) + bytes_of<uint64_t>(2) + "ab";
  GgufWriter writer;
  writer.texts("texts", {"a", "", "ccc"})
      .raw("ints", 9,
           bytes_of<uint32_t>(5) + bytes_of<uint64_t>(2) + bytes_of<int32_t>(-1) +
               bytes_of<int32_t>(7))
      .raw("floats", 9, bytes_of<uint32_t>(6) + bytes_of<uint64_t>(1) + bytes_of<float>(0.5F))
      .raw("nested", 9, bytes_of<uint32_t>(9) + bytes_of<uint64_t>(2) + inner + inner)
      .u32("after", 9);
  const auto header = read_back(writer.finish());
  ASSERT_TRUE(header.ok()) << header.status().to_string();
  EXPECT_EQ(header->metadata.at("texts"), GgufValue(std::vector<std::string>{"a", "", "ccc"}));
  EXPECT_EQ(header->metadata.at("ints"), GgufValue(std::vector<int64_t>{-1, 7}));
  EXPECT_EQ(header->metadata.at("floats"), GgufValue(std::vector<double>{0.5}));
  EXPECT_EQ(header->metadata.count("nested"), 0U);
  EXPECT_EQ(header->metadata.at("after"), GgufValue(uint64_t{9}));
}

TEST(GgufTest, TensorShapesAreOutermostFirstAndAligned) {
  GgufWriter writer;
  writer.alignment = 64;
  writer.u32("general.alignment", 64);
  writer.tensor("a", 0, {3}, zeros(12)).tensor("b", 2, {64, 5}, zeros(5 * 36));
  const std::string content = writer.finish();
  const auto header = read_back(content);
  ASSERT_TRUE(header.ok()) << header.status().to_string();
  const StoredTensor& b = header->tensors.at("b");
  EXPECT_EQ(b.shape, (std::vector<int64_t>{5, 64}));
  EXPECT_EQ(b.dtype, DType::kQ4_0);
  EXPECT_EQ(b.bytes, 5 * 36);
  EXPECT_EQ(b.offset % 64, 0);
  EXPECT_EQ(b.offset + b.bytes, static_cast<int64_t>(content.size()));
}

TEST(GgufTest, VersionTwoIsReadOthersAreNot) {
  GgufWriter writer;
  writer.u32("k", 1);
  writer.version = 2;
  EXPECT_EQ(refusal(writer.finish()), "");
  writer.version = 1;
  EXPECT_THAT(refusal(writer.finish()), HasSubstr("GGUF version 1; supported: 2, 3"));
  writer.version = 4;
  EXPECT_THAT(refusal(writer.finish()), HasSubstr("GGUF version 4"));
  writer.version = 0x03000000;
  EXPECT_THAT(refusal(writer.finish()), HasSubstr("big endian"));
}

TEST(GgufTest, UnsupportedTensorTypeIsNamed) {
  const std::string text = refusal(GgufWriter().tensor_at("x", 11, {256}, 0).finish());
  EXPECT_THAT(text, HasSubstr("unimplemented: tensor 'x' in file"));
  EXPECT_THAT(text, HasSubstr("has type q3_k; supported: f32, f16, q4_0, q4_1, q8_0"));
  EXPECT_THAT(refusal(GgufWriter().tensor_at("x", 4000, {256}, 0).finish()),
              HasSubstr("has type number 4000"));
}

TEST(GgufTest, DuplicatesAreRefused) {
  EXPECT_THAT(refusal(GgufWriter().u32("k", 1).u32("k", 2).finish()),
              HasSubstr("key 'k' is there twice"));
  EXPECT_THAT(
      refusal(GgufWriter().tensor("t", 0, {8}, zeros(32)).tensor("t", 0, {8}, zeros(32)).finish()),
      HasSubstr("tensor 't' is listed twice"));
}

TEST(GgufTest, LyingTensorsAreRefused) {
  const auto with = [](uint32_t type, std::vector<uint64_t> dims, uint64_t offset) {
    return refusal(GgufWriter()
                       .tensor("good", 0, {64}, zeros(256))
                       .tensor_at("bad", type, std::move(dims), offset)
                       .finish());
  };
  EXPECT_THAT(with(0, {64}, uint64_t{1} << 63),
              HasSubstr("tensor 'bad' has offset 92233720368547"));
  EXPECT_THAT(with(0, {64}, UINT64_MAX - 31), HasSubstr("tensor 'bad' has offset"));
  EXPECT_THAT(with(0, {64}, 32), HasSubstr("tensor 'bad' needs bytes 32 to 288"));
  EXPECT_THAT(with(0, {8}, 33), HasSubstr("not a multiple of the alignment 32"));
  EXPECT_THAT(with(0, {8}, 64), HasSubstr("overlaps tensor 'good'"));
  EXPECT_THAT(with(0, {64, 0}, 0), HasSubstr("dimension 1 of size 0"));
  EXPECT_THAT(with(0, {kHuge}, 0), HasSubstr("is larger than the file"));
  EXPECT_THAT(with(1, {kHuge, kHuge}, 0), HasSubstr("tensor 'bad'"));
  EXPECT_THAT(with(0, {1 << 30, 1 << 30, 1 << 30, 1 << 30}, 0), HasSubstr("is larger than"));
  EXPECT_THAT(with(0, {uint64_t{1} << 63}, 0), HasSubstr("dimension 0 of size 922337203"));
  EXPECT_THAT(with(0, {1, 1, 1, 1, 1, 1, 1, 1, 1}, 0),
              HasSubstr("has 9 dimensions; expected 1 to 4"));
  EXPECT_THAT(with(0, {}, 0), HasSubstr("has 0 dimensions"));
  EXPECT_THAT(with(2, {40}, 0), HasSubstr("rows of 40 elements; expected a multiple of 32"));
}

TEST(GgufTest, LyingCountsAreRefused) {
  const std::string head = "GGUF" + bytes_of<uint32_t>(3);
  EXPECT_THAT(refusal(head + bytes_of(kHuge) + bytes_of<uint64_t>(0)),
              HasSubstr("claims 4611686018427387904 tensors"));
  EXPECT_THAT(refusal(head + bytes_of<uint64_t>(0) + bytes_of(kHuge)),
              HasSubstr("claims 4611686018427387904 keys"));
  const auto array = [](uint32_t type, uint64_t count) {
    return GgufWriter().raw("k", 9, bytes_of(type) + bytes_of(count) + zeros(64)).finish();
  };
  for (const uint32_t type : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 10U, 11U, 12U}) {
    EXPECT_THAT(refusal(array(type, kHuge)), HasSubstr("key 'k' claims an array of 461168"))
        << type;
  }
  EXPECT_THAT(refusal(array(13, 1)), HasSubstr("unknown type 13"));
  EXPECT_THAT(refusal(GgufWriter().raw("k", 8, bytes_of(kHuge)).finish()),
              HasSubstr("holds a string of 461168"));
  EXPECT_THAT(refusal(GgufWriter().raw("k", 8, bytes_of<uint64_t>(1 << 20)).finish()),
              HasSubstr("a string at byte"));
}

TEST(GgufTest, DeepNestingIsRefused) {
  std::string value = bytes_of<uint32_t>(0) + bytes_of<uint64_t>(0);
  for (int i = 0; i < 10000; ++i) value.insert(0, bytes_of<uint32_t>(9) + bytes_of<uint64_t>(1));
  EXPECT_THAT(refusal(GgufWriter().raw("k", 9, value).finish()), HasSubstr("nests arrays deeper"));
}

TEST(GgufTest, BadAlignmentIsRefused) {
  for (const uint32_t alignment : {0U, 3U, 48U, 1U << 30}) {
    EXPECT_THAT(refusal(GgufWriter().u32("general.alignment", alignment).finish()),
                HasSubstr("must be a power of two"));
  }
  EXPECT_THAT(refusal(GgufWriter().text("general.alignment", "x").finish()),
              HasSubstr("must be a power of two"));
}

TEST(GgufTest, MessagesStayOneCleanLine) {
  const std::string name = "evil\n\x1b[31m\xFF" + std::string(500, 'n');
  const std::string text = refusal(GgufWriter().tensor_at(name, 0, {0}, 0).finish());
  EXPECT_THAT(text, HasSubstr("'evil\\x0a\\x1b[31m\\xff"));
  EXPECT_LT(text.size(), 400U);
}

}  // namespace
}  // namespace encore
