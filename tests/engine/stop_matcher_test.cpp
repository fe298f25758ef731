#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace encore {
namespace {

struct Outcome {
  std::string sent;
  bool stopped = false;
};

Outcome feed(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  Outcome outcome;
  for (const std::string& piece : pieces) {
    outcome.stopped = matcher.push(piece, outcome.sent);
    if (outcome.stopped) return outcome;
  }
  matcher.finish(outcome.sent);
  return outcome;
}

TEST(StopMatcherTest, NothingOfTheStopIsSent) {
  const Outcome outcome = feed({"DEFGHIJ"}, {"A", "B", "C", "D", "E", "F", "G", "H", "I", "J"});
  EXPECT_TRUE(outcome.stopped);
  EXPECT_EQ(outcome.sent, "ABC");
}

TEST(StopMatcherTest, HoldsBackOnlyWhatMayBecomeAStop) {
  StopMatcher matcher({"DEF"});
  std::string sent;
  EXPECT_FALSE(matcher.push("ABCDE", sent));
  EXPECT_EQ(sent, "ABC");
  EXPECT_FALSE(matcher.push("", sent));
  EXPECT_EQ(sent, "ABC");
  EXPECT_FALSE(matcher.push("X", sent));
  EXPECT_EQ(sent, "ABCDEX");
}

TEST(StopMatcherTest, NearMatchIsReleasedAtTheEnd) {
  const Outcome outcome = feed({"DEFGHIJ"}, {"ABC", "DEFGHI"});
  EXPECT_FALSE(outcome.stopped);
  EXPECT_EQ(outcome.sent, "ABCDEFGHI");
}

TEST(StopMatcherTest, TwoNewlinesStopAsOnePieceAndAsTwo) {
  EXPECT_EQ(feed({"\n\n"}, {"a", "\n\n", "b"}).sent, "a");
  EXPECT_EQ(feed({"\n\n"}, {"a", "\n", "\n", "b"}).sent, "a");
  EXPECT_EQ(feed({"\n\n"}, {"a\n", "b\n", "\nc"}).sent, "a\nb");
}

TEST(StopMatcherTest, OfOverlappingStopsTheFirstToEndCounts) {
  EXPECT_EQ(feed({"abc", "ab"}, {"xabc"}).sent, "x");
  EXPECT_EQ(feed({"bc", "abcd"}, {"xabcd"}).sent, "xa");
  EXPECT_EQ(feed({"c", "abc"}, {"xabc"}).sent, "x");
}

TEST(StopMatcherTest, SelfOverlapIsNotMissed) {
  EXPECT_EQ(feed({"aab"}, {"a", "a", "a", "b"}).sent, "a");
  EXPECT_EQ(feed({"abab", "zz"}, {"aba", "abab"}).sent, "ab" + std::string("a"));
}

// The stop that ends first, the longest of those; found by looking at every end.
Outcome expected_outcome(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

TEST(StopMatcherTest, AgreesWithASearchOfTheWholeText) {
  std::mt19937 random(3);
  const auto word = [&](int32_t longest) {
    std::string text(1 + random() % longest, 'a');
    for (char& letter : text) letter = static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int32_t round = 0; round < 20000; ++round) {
    std::vector<std::string> stops;
    for (uint32_t i = 0; i < 1 + random() % 3; ++i) stops.push_back(word(5) + (i == 0 ? "b" : ""));
    std::vector<std::string> pieces;
    std::string whole;
    for (uint32_t i = 0; i < random() % 6; ++i) whole += pieces.emplace_back(word(4));
    const Outcome expected = expected_outcome(stops, whole);
    const Outcome actual = feed(stops, pieces);
    ASSERT_EQ(actual.sent, expected.sent) << whole;
    ASSERT_EQ(actual.stopped, expected.stopped) << whole;
  }
}

}  // namespace
}  // namespace encore
