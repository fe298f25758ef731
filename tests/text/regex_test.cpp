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
  TextBudget budget(text.size());
  std::vector<ByteRange> ranges;
  EXPECT_TRUE(regex->find_all(text, budget, ranges).ok());
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

TEST(RegexTest, WordsHaveMarksAndNoFractions) {
  const std::string hindi = "\u0939\u093F\u0928\u094D\u0926\u0940";
  EXPECT_THAT(matches(R"(\w+|[^\w\s]+)", hindi + " \u2083\u2082!"),
              ElementsAre(hindi, "\u2083\u2082!"));
  EXPECT_THAT(matches(R"(\b\w+\b)", hindi + "-ab"), ElementsAre(hindi, "ab"));
  EXPECT_THAT(matches(R"(\w\B)", hindi),
              ElementsAre("\u0939", "\u093F", "\u0928", "\u094D", "\u0926"));
  EXPECT_THAT(matches(R"(\W+)", "a\u0940 \u2083-\u24B6"), ElementsAre(" \u2083-"));
  EXPECT_THAT(matches(R"([^\W\d_]+)", "a1\u0940_b\u2083"), ElementsAre("a", "\u0940", "b"));
  EXPECT_THAT(matches(R"([\W\d]+)", "a1-\u0663b"), ElementsAre("1-\u0663"));
  EXPECT_THAT(matches(R"([[:word:]]+)", "\u0928\u094D-"), ElementsAre("\u0928\u094D"));
  EXPECT_THAT(matches(R"(\w+)", "\u00B2"), ElementsAre("\u00B2"));
  EXPECT_THAT(matches(R"([\w]+)", "\u00B2"), ElementsAre());
}

TEST(RegexTest, ScriptsAreNotTheirExtensions) {
  EXPECT_THAT(matches(R"(\p{Han}+)", "\u4E2D\u3001\u6587"), ElementsAre("\u4E2D", "\u6587"));
  EXPECT_THAT(matches(R"([\p{Hiragana}\p{^Han}]+)", "\u3042\u30FC\u4E2D"),
              ElementsAre("\u3042\u30FC"));
}

TEST(RegexTest, OptionsAndEscapesAreRubys) {
  EXPECT_THAT(matches("a.b", "a\nb"), ElementsAre());
  EXPECT_THAT(matches("(?m)a.b", "a\nb"), ElementsAre("a\nb"));
  EXPECT_THAT(matches("(?mi:A.b)|(?-m:a.b)", "a\nb"), ElementsAre("a\nb"));
  EXPECT_THAT(matches(R"(\v)", "\n\x0B\r"), ElementsAre("\x0B"));
  EXPECT_THAT(matches(R"([\v]|\H+)", "beg\x0Bk"), ElementsAre("g\x0Bk"));
  EXPECT_THAT(matches(R"([\H]+)", "beg k"), ElementsAre("g k"));
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
        {"[[:graph:]]", "[:graph:]"},
        {"(?s).", "the option s"},
        {R"(\pL)", "the escape \\p"},
        {R"(\Qa\E)", "the escape \\Q"},
        {"(", "does not compile"},
        {"\xFF", "not valid UTF-8"}}) {
    const auto regex = Regex::compile(pattern);
    ASSERT_FALSE(regex.ok()) << pattern;
    EXPECT_THAT(regex.status().message(), HasSubstr(what));
  }
}

}  // namespace
}  // namespace encore
