#include "model/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "test_files.h"

namespace encore {
namespace {

using ::testing::HasSubstr;

Result<TensorTable> read_back(const std::string& content) {
  const TempFolder folder;
  auto file = MappedFile::open(folder.write("m.safetensors", content));
  if (!file.ok()) return file.status();
  return read_safetensors_header(**file);
}

std::string refusal(const std::string& content) {
  const auto table = read_back(content);
  return table.ok() ? "" : table.status().to_string();
}

// A file with this header and 16 bytes of data.
std::string refusal_of_header(const std::string& header) {
  return refusal(SafetensorsWriter::with_header(header, std::string(16, 'x')));
}

TEST(SafetensorsTest, ReadsTypesShapesAndPlaces) {
  SafetensorsWriter writer;
  writer.tensor("b", "BF16", {2, 3}, std::string(12, 'b')).tensor("a", "F32", {1}, "aaaa");
  writer.tensor("s", "I64", {}, std::string(8, 's'));
  const std::string content = writer.finish();
  const auto table = read_back(content);
  ASSERT_TRUE(table.ok()) << table.status().to_string();
  EXPECT_EQ(table->at("b").dtype, DType::kBF16);
  EXPECT_EQ(table->at("b").shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(content.substr(static_cast<size_t>(table->at("a").offset), 4), "aaaa");
  EXPECT_EQ(table->at("s").dtype, DType::kInvalid);
  EXPECT_EQ(table->at("s").type_name, "I64");
}

TEST(SafetensorsTest, MetadataIsSkipped) {
  EXPECT_EQ(refusal_of_header(R"({"__metadata__":{"format":"pt"},
      "t":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})"),
            "");
}

TEST(SafetensorsTest, HeaderLengthPastTheEndIsRefused) {
  for (const uint64_t length : {uint64_t{9}, uint64_t{1} << 32, uint64_t{1} << 63, UINT64_MAX}) {
    EXPECT_THAT(refusal(bytes_of(length) + "{}      "), HasSubstr("its header claims"));
  }
  EXPECT_THAT(refusal("1234567"), HasSubstr("it has 7 bytes"));
  EXPECT_THAT(refusal(""), HasSubstr("it has 0 bytes"));
}

TEST(SafetensorsTest, BadJsonIsRefused) {
  EXPECT_THAT(refusal_of_header("{"), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal_of_header("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(refusal_of_header(std::string(100000, '[')), HasSubstr("levels deep"));
  EXPECT_THAT(refusal_of_header("{\"\xFF\":1}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal_of_header(R"({"t":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},
                                    "t":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})"),
              HasSubstr("the key 't' twice"));
}

TEST(SafetensorsTest, LyingEntriesAreRefused) {
  const auto entry = [](const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return refusal_of_header(R"({"t":{"dtype":)" + dtype + R"(,"shape":)" + shape +
                             R"(,"data_offsets":)" + offsets + "}}");
  };
  EXPECT_EQ(entry(R"("F32")", "[2,2]", "[0,16]"), "");
  EXPECT_THAT(entry(R"("F32")", "[2,2]", "[0,17]"), HasSubstr("lies at bytes 0 to 17"));
  EXPECT_THAT(entry(R"("F32")", "[2,2]", "[16,0]"), HasSubstr("lies at bytes 16 to 0"));
  EXPECT_THAT(entry(R"("F32")", "[2,2]", "[9223372036854775808,9223372036854775824]"),
              HasSubstr("lies at bytes 9223372036854775808"));
  EXPECT_THAT(entry(R"("F32")", "[2,2]", "[-16,0]"), HasSubstr("two data_offsets"));
  EXPECT_THAT(entry(R"("F32")", "[2,2]", "[0.0,16.0]"), HasSubstr("two data_offsets"));
  EXPECT_THAT(entry(R"("F32")", "[2,2]", "[0]"), HasSubstr("two data_offsets"));
  EXPECT_THAT(entry(R"("F32")", "[4611686018427387904]", "[0,16]"), HasSubstr("needs more than"));
  EXPECT_THAT(entry(R"("F32")", "[4611686018427387904,4]", "[0,16]"), HasSubstr("needs more than"));
  EXPECT_THAT(entry(R"("F32")", "[3]", "[0,16]"), HasSubstr("which is 12 bytes"));
  EXPECT_THAT(entry(R"("F32")", "[0,4]", "[0,0]"), HasSubstr("not an integer above 0"));
  EXPECT_THAT(entry(R"("F32")", "[-4]", "[0,16]"), HasSubstr("not an integer above 0"));
  EXPECT_THAT(entry(R"("F32")", "[1,1,1,1,1,1,1,1,4]", "[0,16]"),
              HasSubstr("at most 8 dimensions"));
  EXPECT_THAT(entry(R"("F3")", "[4]", "[0,16]"), HasSubstr("has type 'F3'"));
  EXPECT_THAT(entry("7", "[4]", "[0,16]"), HasSubstr("has no dtype"));
  EXPECT_THAT(refusal_of_header(R"({"t":[]})"), HasSubstr("not described by an object"));
}

TEST(SafetensorsTest, HolesAndOverlapsAreRefused) {
  const auto two = [](const std::string& first, const std::string& second) {
    return refusal_of_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":)" + first +
                             R"(},"b":{"dtype":"F32","shape":[2],"data_offsets":)" + second + "}}");
  };
  EXPECT_EQ(two("[0,8]", "[8,16]"), "");
  EXPECT_EQ(two("[8,16]", "[0,8]"), "");
  EXPECT_THAT(two("[0,8]", "[4,12]"), HasSubstr("overlaps"));
  EXPECT_THAT(two("[0,8]", "[0,8]"), HasSubstr("overlaps"));
  EXPECT_THAT(refusal_of_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
              HasSubstr("its tensors end at byte"));
  EXPECT_THAT(refusal_of_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})"),
              HasSubstr("starts at data byte 8; expected 0"));
}

}  // namespace
}  // namespace encore
