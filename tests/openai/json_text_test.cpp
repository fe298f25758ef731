#include "openai/json_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace encore {
namespace {

std::string text(std::string_view raw) {
  std::string out;
  append_json_text(raw, out);
  return out;
}

std::string logprob(float value) {
  std::string out;
  append_json_logprob(value, out);
  return out;
}

TEST(JsonTextTest, LeavesPlainTextAlone) {
  EXPECT_EQ(text(""), "");
  EXPECT_EQ(text("Hello, world/ <b>'x'</b> \x7F"), "Hello, world/ <b>'x'</b> \x7F");
}

TEST(JsonTextTest, EscapesQuotesBackslashesAndControls) {
  EXPECT_EQ(text("say \"hi\" \\o/"), R"(say \"hi\" \\o/)");
  EXPECT_EQ(text("\b\t\n\f\r"), R"(\b\t\n\f\r)");
  EXPECT_EQ(text(std::string_view("\0\x01\x0B\x1F", 4)), R"(\u0000\u0001\u000b\u001f)");
}

TEST(JsonTextTest, KeepsCharactersOfEveryLength) {
  EXPECT_EQ(text("é聪👩‍👩‍👧"), "é聪👩‍👩‍👧");
}

// Python's str.splitlines() and JavaScript before 2019 end a line here.
TEST(JsonTextTest, EscapesUnicodeLineEnds) {
  EXPECT_EQ(text("a\u2028b\u2029c\u0085d"), R"(a\u2028b\u2029c\u0085d)");
}

// As Python's bytes.decode("utf-8", "replace") does.
TEST(JsonTextTest, ReplacesMalformedUtf8) {
  EXPECT_EQ(text("a\xFF\xFE"
                 "b"),
            "a\uFFFD\uFFFDb");
  EXPECT_EQ(text("\xE8\x81"), "\uFFFD");                  // cut
  EXPECT_EQ(text("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(text("\xC0\xAF\""), "\uFFFD\uFFFD\\\"");      // overlong
}

TEST(JsonTextTest, ReadsBackAsItWas) {
  std::string every;
  for (uint32_t byte = 0; byte < 0x80; ++byte) every.push_back(static_cast<char>(byte));
  every.append("\u0085\u2028 é聪👧");
  std::string json;
  append_json_string(every, json);
  EXPECT_EQ(nlohmann::json::parse(json).get<std::string>(), every);
}

TEST(JsonTextTest, LogprobsAreTheShortestFractions) {
  EXPECT_EQ(logprob(-0.31725305F), "-0.31725305");
  EXPECT_EQ(logprob(-0.5F), "-0.5");
  EXPECT_EQ(logprob(0.0F), "0.0");
  EXPECT_EQ(logprob(-17.0F), "-17.0");
  EXPECT_EQ(logprob(-1e-10F), "-1e-10");
}

TEST(JsonTextTest, LogprobsThatAreNotFiniteAreVeryUnlikely) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(logprob(-infinity), "-9999.0");
  EXPECT_EQ(logprob(infinity), "-9999.0");
  EXPECT_EQ(logprob(std::nanf("")), "-9999.0");
}

TEST(JsonTextTest, IntegersOfEverySize) {
  std::string out;
  append_json_integer(std::numeric_limits<int64_t>::min(), out);
  append_json_integer(0, out);
  append_json_integer(std::numeric_limits<int64_t>::max(), out);
  EXPECT_EQ(out, "-922337203685477580809223372036854775807");
}

}  // namespace
}  // namespace encore
