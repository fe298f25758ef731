#include "tuning_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "file_text.h"
#include "temp_folder.h"

namespace encore::gpu {
namespace {

using testing::read;
using testing::TempFolder;
using testing::with;
using testing::write;

constexpr char kIdentity[] = "Some GPU, sm 9.0, 132 multiprocessors, library 130002";

AlgorithmBytes bytes(std::initializer_list<int> values) {
  AlgorithmBytes result;
  for (const int value : values) result.push_back(static_cast<std::byte>(value));
  return result;
}

ProductShape shape(int32_t m, int32_t n = 64, int32_t k = 32) { return {m, n, k}; }

TEST(TuningCacheTest, SavedChoicesComeBack) {
  const TempFolder folder;
  TuningCache saved(folder.path() / "a" / "b", kIdentity);  // folders are made as needed
  const ProductShape logits{8, 1000, 96, Element::kF32, false, false};
  const ProductShape fused{2147483647, 64, 32, Element::kBF16, true, true};
  saved.put(logits, bytes({0, 127, 128, 255}));
  saved.put(fused, bytes({16}));
  ASSERT_TRUE(saved.save().ok());

  TuningCache loaded(folder.path() / "a" / "b", kIdentity);
  const Status status = loaded.load();
  ASSERT_TRUE(status.ok()) << status.to_string();
  ASSERT_NE(loaded.find(logits), nullptr);
  EXPECT_EQ(*loaded.find(logits), bytes({0, 127, 128, 255}));
  ASSERT_NE(loaded.find(fused), nullptr);
  EXPECT_EQ(*loaded.find(fused), bytes({16}));
  EXPECT_EQ(loaded.find(shape(8)), nullptr);
}

TEST(TuningCacheTest, ShapesDifferInEveryField) {
  TuningCache cache({}, kIdentity);
  const ProductShape base{4, 64, 32, Element::kBF16, false, false};
  cache.put(base, bytes({1}));
  for (const ProductShape& other : {ProductShape{5, 64, 32, Element::kBF16, false, false},
                                    ProductShape{4, 65, 32, Element::kBF16, false, false},
                                    ProductShape{4, 64, 33, Element::kBF16, false, false},
                                    ProductShape{4, 64, 32, Element::kF32, false, false},
                                    ProductShape{4, 64, 32, Element::kBF16, true, false},
                                    ProductShape{4, 64, 32, Element::kBF16, false, true}}) {
    EXPECT_EQ(cache.find(other), nullptr);
    cache.put(other, bytes({2}));
  }
  EXPECT_EQ(*cache.find(base), bytes({1}));
}

TEST(TuningCacheTest, NearestIsTheNextLargerRowCountElseTheLargest) {
  TuningCache cache({}, kIdentity);
  EXPECT_EQ(cache.nearest(shape(1)), nullptr);
  cache.put(shape(16), bytes({16}));
  cache.put(shape(64), bytes({64}));
  cache.put(shape(16, 63), bytes({1}));  // neighbours in the order that must not be taken
  cache.put(shape(16, 65), bytes({2}));
  EXPECT_EQ(*cache.nearest(shape(1)), bytes({16}));
  EXPECT_EQ(*cache.nearest(shape(16)), bytes({16}));
  EXPECT_EQ(*cache.nearest(shape(17)), bytes({64}));
  EXPECT_EQ(*cache.nearest(shape(64)), bytes({64}));
  EXPECT_EQ(*cache.nearest(shape(5000)), bytes({64}));
  EXPECT_EQ(cache.nearest(shape(16, 62)), nullptr);
  EXPECT_EQ(cache.nearest(shape(16, 66)), nullptr);
}

TEST(TuningCacheTest, AbsentFileIsNoError) {
  const TempFolder folder;
  TuningCache cache(folder.path(), kIdentity);
  EXPECT_TRUE(cache.load().ok());
}

TEST(TuningCacheTest, EmptyFolderKeepsNothing) {
  TuningCache cache({}, kIdentity);
  cache.put(shape(1), bytes({1}));
  EXPECT_TRUE(cache.path().empty());
  EXPECT_TRUE(cache.save().ok());
  EXPECT_TRUE(cache.load().ok());
  EXPECT_NE(cache.find(shape(1)), nullptr);
}

TEST(TuningCacheTest, AnotherIdentityHasAnotherFile) {
  const TempFolder folder;
  const TuningCache one(folder.path(), kIdentity);
  const TuningCache other(folder.path(), "Some GPU, sm 9.0, 132 multiprocessors, library 130003");
  EXPECT_NE(one.path(), other.path());
  EXPECT_EQ(one.path().filename(),
            "products-Some-GPU-sm-9.0-132-multiprocessors-library-130002.json");
}

TEST(TuningCacheTest, DamagedFileIsIgnoredWhole) {
  const TempFolder folder;
  TuningCache good(folder.path(), kIdentity);
  good.put(shape(3), bytes({1, 2}));
  good.put(shape(4), bytes({3, 4}));
  ASSERT_TRUE(good.save().ok());
  const std::string text = read(good.path());
  const std::string cases[] = {
      "",
      "[]",
      "null",
      text.substr(0, text.size() / 2),
      with(text, "\"format\": 1", "\"format\": 2"),
      with(text, "library 130002", "library 130003"),
      with(text, "\"products\"", "\"product\""),
      with(text, "0102", "010"),
      with(text, "0102", "01g2"),
      with(text, "0102", ""),
      with(text, "\"0102\"", "7"),
      with(text, "\"m\": 3", "\"m\": 0"),
      with(text, "\"m\": 3", "\"m\": 4"),  // twice the same product
      with(text, "\"m\": 3", "\"m\": 3.5"),
      with(text, "\"m\": 3", "\"m\": 4294967299"),
      with(text, "\"bf16\"", "\"f16\""),
      with(text, "\"bias\": false", "\"bias\": 0"),
  };
  for (const std::string& damaged : cases) {
    write(good.path(), damaged);
    TuningCache cache(folder.path(), kIdentity);
    const Status status = cache.load();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << damaged;
    EXPECT_NE(status.message().find(good.path().string()), std::string::npos) << status.message();
    EXPECT_EQ(cache.find(shape(3)), nullptr);
    EXPECT_EQ(cache.find(shape(4)), nullptr);
    // And the next save replaces it.
    cache.put(shape(5), bytes({5}));
    ASSERT_TRUE(cache.save().ok());
    TuningCache repaired(folder.path(), kIdentity);
    EXPECT_TRUE(repaired.load().ok());
    EXPECT_NE(repaired.find(shape(5)), nullptr);
  }
}

TEST(TuningCacheTest, HugeFileIsIgnored) {
  const TempFolder folder;
  TuningCache cache(folder.path(), kIdentity);
  write(cache.path(), "{}");
  std::filesystem::resize_file(cache.path(), uintmax_t{1} << 30);
  EXPECT_EQ(cache.load().code(), StatusCode::kDataLoss);
}

TEST(TuningCacheTest, FailedSaveLeavesNothingBehind) {
  const TempFolder folder;
  write(folder.path() / "file", "not a folder");
  TuningCache cache(folder.path() / "file" / "below", kIdentity);
  cache.put(shape(1), bytes({1}));
  const Status status = cache.save();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("file/below"), std::string::npos) << status.message();

  // A rename that cannot succeed: a folder stands where the file should.
  TuningCache blocked(folder.path() / "c", kIdentity);
  std::filesystem::create_directories(blocked.path() / "x");
  blocked.put(shape(1), bytes({1}));
  EXPECT_EQ(blocked.save().code(), StatusCode::kUnavailable);
  const std::filesystem::directory_iterator files(folder.path() / "c");
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST(TuningCacheTest, DefaultFolderFollowsTheEnvironment) {
  ::setenv("XDG_CACHE_HOME", "/caches", 1);
  ::setenv("HOME", "/home/someone", 1);
  EXPECT_EQ(default_tuning_folder(), "/caches/encore");
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(default_tuning_folder(), "/home/someone/.cache/encore");
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("HOME");
  EXPECT_EQ(default_tuning_folder(), "");
}

}  // namespace
}  // namespace encore::gpu
