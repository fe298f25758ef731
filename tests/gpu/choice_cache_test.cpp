#include "choice_cache.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "file_text.h"
#include "temp_folder.h"

namespace encore::gpu {
namespace {

using testing::read;
using testing::TempFolder;
using testing::with;
using testing::write;

constexpr char kIdentity[] = "Some GPU, sm 9.0, library 130002, build 00ff";
constexpr char kLayer[] = "128 rows, heads 32/8 of 128: [6144, 4096], [4096, 4096] add";
constexpr char kLogits[] = "1 rows, heads 32/8 of 128: [1000, 4096] logits";

TEST(ChoiceCacheTest, SavedChoicesComeBack) {
  const TempFolder folder;
  ChoiceCache saved(folder.path(), kIdentity);
  saved.put(kLayer, {2, -1});
  saved.put(kLogits, {0});
  saved.put(kLogits, {7});
  ASSERT_TRUE(saved.save().ok());
  EXPECT_EQ(saved.path().filename(), "kernels-Some-GPU-sm-9.0-library-130002-build-00ff.json");

  ChoiceCache loaded(folder.path(), kIdentity);
  EXPECT_EQ(loaded.find(kLayer), nullptr);
  const Status status = loaded.load();
  ASSERT_TRUE(status.ok()) << status.to_string();
  ASSERT_NE(loaded.find(kLayer), nullptr);
  EXPECT_EQ(*loaded.find(kLayer), (std::vector<int32_t>{2, -1}));
  ASSERT_NE(loaded.find(kLogits), nullptr);
  EXPECT_EQ(*loaded.find(kLogits), (std::vector<int32_t>{7}));
  EXPECT_EQ(loaded.find("64 rows"), nullptr);
}

TEST(ChoiceCacheTest, AnotherBuildFindsNothing) {
  const TempFolder folder;
  ChoiceCache saved(folder.path(), kIdentity);
  saved.put(kLayer, {2, 1});
  ASSERT_TRUE(saved.save().ok());
  ChoiceCache other(folder.path(), "Some GPU, sm 9.0, library 130002, build 00fe");
  ASSERT_TRUE(other.load().ok());
  EXPECT_EQ(other.find(kLayer), nullptr);
}

TEST(ChoiceCacheTest, WritesOnlyWhatIsNew) {
  const TempFolder folder;
  ChoiceCache cache(folder.path(), kIdentity);
  ASSERT_TRUE(cache.save().ok());
  EXPECT_FALSE(std::filesystem::exists(cache.path()));
  cache.put(kLayer, {1, 1});
  ASSERT_TRUE(cache.save().ok());
  ASSERT_TRUE(std::filesystem::remove(cache.path()));
  ASSERT_TRUE(cache.save().ok());
  EXPECT_FALSE(std::filesystem::exists(cache.path()));
}

TEST(ChoiceCacheTest, DamagedFileIsIgnoredWhole) {
  const TempFolder folder;
  ChoiceCache good(folder.path(), kIdentity);
  good.put(kLayer, {77, 1});
  good.put(kLogits, {3});
  ASSERT_TRUE(good.save().ok());
  const std::string text = read(good.path());
  const std::string cases[] = {
      "",
      "[]",
      text.substr(0, text.size() / 2),
      with(text, "\"format\": 1", "\"format\": 2"),
      with(text, "build 00ff", "build 00fe"),
      with(text, "\"kernels\"", "\"kernel\""),
      with(text, "77", "1.5"),
      with(text, "77", "null"),
      with(text, "77", "4294967296"),
      with(text, "\"variants\"", "\"variant\""),
      with(text, std::string("\"") + kLogits + "\"", "1"),
      with(text, kLogits, kLayer),  // twice the same
  };
  for (const std::string& damaged : cases) {
    write(good.path(), damaged);
    ChoiceCache cache(folder.path(), kIdentity);
    const Status status = cache.load();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << damaged;
    EXPECT_NE(status.message().find(good.path().string()), std::string::npos) << status.message();
    EXPECT_EQ(cache.find(kLayer), nullptr);
    EXPECT_EQ(cache.find(kLogits), nullptr);
  }
}

}  // namespace
}  // namespace encore::gpu
