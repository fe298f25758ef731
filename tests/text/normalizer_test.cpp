// Unicode normal forms against goldens of the tokenizers library (make_normalization_goldens.py).
#include "text/normalizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "test_tokenizers.h"

namespace encore {
namespace {

std::string repeat(std::string_view unit, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += unit;
  return text;
}

std::string normalized(UnicodeForm form, std::string_view text) {
  TextBudget budget(text.size());
  return Normalizer({form}).apply(text, budget).value();
}

TEST(NormalizerTest, FormsEqualTheTokenizersLibrary) {
  const auto rows = nlohmann::json::parse(read_golden("normalization.json"));
  ASSERT_EQ(rows.size(), 300u);
  for (const auto& row : rows) {
    const auto text = row[0].get<std::string>();
    EXPECT_EQ(normalized(UnicodeForm::kNfc, text), row[1].get<std::string>());
    EXPECT_EQ(normalized(UnicodeForm::kNfd, text), row[2].get<std::string>());
    EXPECT_EQ(normalized(UnicodeForm::kNfkc, text), row[3].get<std::string>());
    EXPECT_EQ(normalized(UnicodeForm::kNfkd, text), row[4].get<std::string>());
  }
}

TEST(NormalizerTest, MarksOfOneClassKeepTheirOrder) {
  // U+0301 and U+0300 have class 230, U+0323 has 220.
  EXPECT_EQ(normalized(UnicodeForm::kNfd, "a\xCC\x81\xCC\x80\xCC\xA3"),
            "a\xCC\xA3\xCC\x81\xCC\x80");
}

TEST(NormalizerTest, LongRunsOfMarksTakeLinearTime) {
  constexpr size_t kCount = size_t{1} << 18;
  const std::string above = repeat("\xCC\x81", kCount);  // U+0301
  const std::string below = repeat("\xCC\xA3", kCount);  // U+0323, of a lower class
  for (const UnicodeForm form :
       {UnicodeForm::kNfc, UnicodeForm::kNfd, UnicodeForm::kNfkc, UnicodeForm::kNfkd}) {
    const auto start = std::chrono::steady_clock::now();
    const std::string text = normalized(form, above + below);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_TRUE(text == below + above);
    EXPECT_LT(took.count(), 10);  // a quarter of an hour if reordering were quadratic
  }
}

TEST(NormalizerTest, GrowthIsBounded) {
  const Normalizer doubling(std::vector<NormalizerStep>(28, ReplaceText{"a", "aa"}));
  TextBudget budget(1);
  EXPECT_EQ(doubling.apply("a", budget).status().code(), StatusCode::kInvalidArgument);

  // 1024 bytes and 16 times the text, whatever the pieces.
  const Normalizer hundred({ReplaceText{"a", std::string(101, 'b')}});
  TextBudget shared(11);
  for (int i = 0; i < 12; ++i) EXPECT_TRUE(hundred.apply("a", shared).ok());
  EXPECT_FALSE(hundred.apply("a", shared).ok());
  EXPECT_EQ(hundred.apply("c", shared).value(), "c");
}

}  // namespace
}  // namespace encore
