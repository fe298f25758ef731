// Oniguruma's expressions on PCRE2. The expected matches are what the tokenizers library finds.
#include "text/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace encore {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> matches(std::string_view pattern, std::string_view text) {
  const auto regex = Regex::compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status().to_string();
  std::vector<ByteRange> ranges;
  EXPECT_TRUE(regex->find_all(text, ranges).ok());
  std::vector<std::string> found;
  found.reserve(ranges.size());
  for (const ByteRange& range : ranges) found.emplace_back(text.substr(range.begin, range.size()));
  return found;
}

TEST(RegexTest, SpaceIsUnicodeWhiteSpace) {
  EXPECT_THAT(matches(R"(\s+)",
                      "a\xC2\x85\xE3\x80\x80"
                      "b"),
              ElementsAre("\xC2\x85\xE3\x80\x80"));
  EXPECT_THAT(matches(R"(\s)", "\xE1\xA0\x8E\xE2\x80\x8B"), ElementsAre());  // U+180E, U+200B
  EXPECT_THAT(matches(R"([^\s]+)", " \xE1\xA0\x8E "), ElementsAre("\xE1\xA0\x8E"));
  EXPECT_THAT(matches(R"(\S+)", " \xE1\xA0\x8E "), ElementsAre("\xE1\xA0\x8E"));
}

TEST(RegexTest, PropertiesKnowUnicode16) {
  EXPECT_THAT(matches(R"(\p{L}+)", "a\xEA\x9F\x8B"), ElementsAre("a\xEA\x9F\x8B"));  // U+A7CB
  EXPECT_THAT(matches(R"([^\p{L}]+)", "-\xEA\x9F\x8B-"), ElementsAre("-", "-"));
  EXPECT_THAT(matches(R"(\P{L}+)", "-\xEA\x9F\x8B-"), ElementsAre("-", "-"));
  EXPECT_THAT(matches(R"(\p{S})", "\xF0\x9F\x9D\xBD"), ElementsAre("\xF0\x9F\x9D\xBD"));  // U+1F77D
}

TEST(RegexTest, CaseFoldingIsUnicode) {
  EXPECT_THAT(matches("(?i:'s)", "'s'S'\xC5\xBF"), ElementsAre("'s", "'S", "'\xC5\xBF"));
}

TEST(RegexTest, BracketsAndBracesAreRead) {
  EXPECT_THAT(matches(R"([\]\[a]+)", "a[]b"), ElementsAre("a[]"));
  EXPECT_THAT(matches("[]a]+", "a]b"), ElementsAre("a]"));
  EXPECT_THAT(matches(R"([[:alpha:]]+)", "a1b"), ElementsAre("a", "b"));
  EXPECT_THAT(matches(R"(\p{N}{1,3})", "12345"), ElementsAre("123", "45"));
  EXPECT_THAT(matches(R"(\h+)", "xyzBEEFg"), ElementsAre("BEEF"));
}

TEST(RegexTest, EmptyMatchesAdvance) {
  EXPECT_THAT(matches("x*", "\xC3\xA9x"), ElementsAre("", "x"));
}

TEST(RegexTest, OtherSyntaxIsRefusedByName) {
  for (const auto& [pattern, what] :
       {std::pair<const char*, const char*>{"[a[bc]]", "a class within a class"},
        {"[a&&b]", "&&"},
        {"a{1,2}+", "{n,m}+"},
        {"(", "does not compile"},
        {"\xFF", "not valid UTF-8"}}) {
    const auto regex = Regex::compile(pattern);
    ASSERT_FALSE(regex.ok()) << pattern;
    EXPECT_THAT(regex.status().message(), HasSubstr(what));
  }
}

}  // namespace
}  // namespace encore
