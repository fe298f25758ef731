#include "model/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>

#include "test_files.h"

namespace encore {
namespace {

TEST(MappedFileTest, ReadEqualsMapping) {
  const TempFolder folder;
  auto file = MappedFile::open(folder.write("f", "0123456789"));
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  std::array<std::byte, 4> four;
  ASSERT_TRUE((*file)->read(6, four).ok());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(four.data()), 4), "6789");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>((*file)->data()), 10), "0123456789");
}

TEST(MappedFileTest, RangesOutsideAreRefused) {
  const TempFolder folder;
  auto file = MappedFile::open(folder.write("f", "0123456789"));
  ASSERT_TRUE(file.ok());
  std::array<std::byte, 4> four;
  for (const int64_t offset : {int64_t{7}, int64_t{11}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ((*file)->read(offset, four).code(), StatusCode::kInvalidArgument) << offset;
    (*file)->drop_pages(offset, 4);  // ignored, not undefined
  }
}

TEST(MappedFileTest, FileThatShrinksIsAnErrorNotASignal) {
  const TempFolder folder;
  const std::string path = folder.write("f", std::string(100000, 'x'));
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(::truncate(path.c_str(), 10), 0);
  std::array<std::byte, 4> four;
  const Status status = (*file)->read(50000, four);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("100000 bytes"), std::string::npos) << status.message();
}

TEST(MappedFileTest, DroppedPagesReadTheSameAgain) {
  const TempFolder folder;
  std::string content(1 << 16, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 31 >> 4);
  auto file = MappedFile::open(folder.write("f", content));
  ASSERT_TRUE(file.ok());
  (*file)->drop_pages(100, (1 << 16) - 100);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>((*file)->data()), content.size()), content);
}

TEST(MappedFileTest, EmptyFileOpensWithoutData) {
  const TempFolder folder;
  auto file = MappedFile::open(folder.write("f", ""));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->size(), 0);
  EXPECT_EQ((*file)->data(), nullptr);
}

TEST(MappedFileTest, OtherThingsThanFilesAreRefused) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo(folder.path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::open(folder.path("fifo")).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(MappedFile::open(folder.path()).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(MappedFile::open(folder.path("none")).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace encore
