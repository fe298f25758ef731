#include "openai/logprob_text.h"

#include <gtest/gtest.h>

#include <limits>

#include "reply_events.h"

namespace encore {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::string collected(LogprobText text, const TokenBytes& bytes,
                      const std::vector<RequestEvent>& events) {
  for (const RequestEvent& event : events) text.add(event, bytes);
  std::string out;
  text.append_to(out);
  return out;
}

TEST(LogprobTextTest, NoTokens) {
  EXPECT_EQ(collected(LogprobText(true, 2), {}, {}), R"({"content":[],"refusal":null})");
  EXPECT_EQ(collected(LogprobText(false, 2), {}, {}),
            R"({"tokens":[],"token_logprobs":[],"top_logprobs":[],"text_offset":[]})");
}

// Zero asks for the sampled token's log-probability alone.
TEST(LogprobTextTest, CompletionsWithoutAlternatives) {
  EXPECT_EQ(collected(LogprobText(false, 0), bytes_of({"a", "b"}),
                      {logprob_event(0, -1.0F, "a"), logprob_event(1, -2.0F, "b")}),
            R"({"tokens":["a","b"],"token_logprobs":[-1.0,-2.0],"top_logprobs":null,)"
            R"("text_offset":[0,1]})");
}

TEST(LogprobTextTest, NoMoreAlternativesThanAskedFor) {
  EXPECT_EQ(collected(LogprobText(true, 1), bytes_of({"a", "b"}),
                      {logprob_event(0, -1.0F, "a", {{0, -1.0F}, {1, -2.0F}})}),
            R"({"content":[{"token":"a","logprob":-1.0,"bytes":[97],"top_logprobs":[)"
            R"({"token":"a","logprob":-1.0,"bytes":[97]}]}],"refusal":null})");
}

TEST(LogprobTextTest, InfinitiesBecomeNumbers) {
  EXPECT_EQ(collected(LogprobText(true, 1), bytes_of({"a", "b"}),
                      {logprob_event(0, -kInfinity, "a", {{1, -kInfinity}})}),
            R"({"content":[{"token":"a","logprob":-9999.0,"bytes":[97],"top_logprobs":[)"
            R"({"token":"b","logprob":-9999.0,"bytes":[98]}]}],"refusal":null})");
  EXPECT_EQ(collected(LogprobText(false, 1), bytes_of({"a", "b"}),
                      {logprob_event(0, -kInfinity, "a", {{1, -kInfinity}})}),
            R"({"tokens":["a"],"token_logprobs":[-9999.0],)"
            R"("top_logprobs":[{"b":-9999.0,"a":-9999.0}],"text_offset":[0]})");
}

// 👧 is F0 9F 91 A7, here in three tokens; the character begins at offset 1.
TEST(LogprobTextTest, PartsOfACharacterAreNamedByTheirBytes) {
  EXPECT_EQ(collected(LogprobText(false, 0), bytes_of({"é", "\xF0\x9F", "\x91", "\xA7", "!"}),
                      {logprob_event(0, -1.0F, "é"), logprob_event(1, -1.0F, ""),
                       logprob_event(2, -1.0F, ""), logprob_event(3, -1.0F, "👧"),
                       logprob_event(4, -1.0F, "!")}),
            R"({"tokens":["é","bytes:\\xf0\\x9f","bytes:\\x91","bytes:\\xa7","!"],)"
            R"("token_logprobs":[-1.0,-1.0,-1.0,-1.0,-1.0],"top_logprobs":null,)"
            R"("text_offset":[0,1,1,1,2]})");
}

// An object holds a key once: the more probable token has it.
TEST(LogprobTextTest, TokensOfOneNameAreListedOnce) {
  EXPECT_EQ(collected(LogprobText(false, 3), bytes_of({"a", "a", "b"}),
                      {logprob_event(1, -3.0F, "a", {{0, -1.0F}, {2, -2.0F}, {1, -3.0F}})}),
            R"({"tokens":["a"],"token_logprobs":[-3.0],"top_logprobs":[{"a":-1.0,"b":-2.0}],)"
            R"("text_offset":[0]})");
}

TEST(LogprobTextTest, EventsWithoutALogprobAreLeftOut) {
  EXPECT_EQ(collected(LogprobText(true, 0), bytes_of({"a"}), {text_event("a")}),
            R"({"content":[],"refusal":null})");
  RequestEvent end = logprob_event(-1, 0.0F, "");  // the end of a cancelled request
  EXPECT_EQ(collected(LogprobText(true, 0), bytes_of({"a"}), {end}),
            R"({"content":[],"refusal":null})");
}

}  // namespace
}  // namespace encore
