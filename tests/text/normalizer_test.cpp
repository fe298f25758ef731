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

TEST(NormalizerTest, FormsEqualTheTokenizersLibrary) {
  const auto rows = nlohmann::json::parse(read_golden("normalization.json"));
  ASSERT_EQ(rows.size(), 300u);
  for (const auto& row : rows) {
    const auto text = row[0].get<std::string>();
    EXPECT_EQ(Normalizer({UnicodeForm::kNfc}).apply(text).value(), row[1].get<std::string>());
    EXPECT_EQ(Normalizer({UnicodeForm::kNfd}).apply(text).value(), row[2].get<std::string>());
    EXPECT_EQ(Normalizer({UnicodeForm::kNfkc}).apply(text).value(), row[3].get<std::string>());
    EXPECT_EQ(Normalizer({UnicodeForm::kNfkd}).apply(text).value(), row[4].get<std::string>());
  }
}

TEST(NormalizerTest, MarksOfOneClassKeepTheirOrder) {
  // U+0301 and U+0300 have class 230, U+0323 has 220.
  EXPECT_EQ(Normalizer({UnicodeForm::kNfd}).apply("a\xCC\x81\xCC\x80\xCC\xA3").value(),
            "a\xCC\xA3\xCC\x81\xCC\x80");
}

TEST(NormalizerTest, LongRunsOfMarksTakeLinearTime) {
  constexpr size_t kCount = size_t{1} << 18;
  const std::string above = repeat("\xCC\x81", kCount);  // U+0301
  const std::string below = repeat("\xCC\xA3", kCount);  // U+0323, of a lower class
  for (const UnicodeForm form :
       {UnicodeForm::kNfc, UnicodeForm::kNfd, UnicodeForm::kNfkc, UnicodeForm::kNfkd}) {
    const auto start = std::chrono::steady_clock::now();
    const auto normalized = Normalizer({form}).apply(above + below);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    ASSERT_TRUE(normalized.ok()) << normalized.status().to_string();
    EXPECT_TRUE(*normalized == below + above);
    EXPECT_LT(took.count(), 10);  // a quarter of an hour if reordering were quadratic
  }
}

}  // namespace
}  // namespace encore
