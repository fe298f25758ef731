#include <gtest/gtest.h>

#include "openai/reply_writer.h"
#include "reply_events.h"

namespace encore {
namespace {

constexpr std::string_view kChatHead =
    R"(data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,)"
    R"("model":"smol","choices":[)";
constexpr std::string_view kTextHead =
    R"(data: {"id":"cmpl-1","object":"text_completion","created":1700000000,)"
    R"("model":"smol","choices":[)";

// A record of a stream without usage.
std::string record(std::string_view head, std::string_view choice) {
  std::string text(head);
  text.append(choice).append("]}\n\n");
  return text;
}

std::string chat(std::string_view choice) { return record(kChatHead, choice); }
std::string completion(std::string_view choice) { return record(kTextHead, choice); }

std::string added(ReplyStream& stream, int32_t index, const RequestEvent& event) {
  std::string out;
  stream.add(index, event, out);
  return out;
}

TEST(ReplyStreamTest, ChatOpensWithTheRoleOfEachChoice) {
  ReplyStream stream(chat_header(), 2, {});
  std::string out;
  stream.open({}, out);
  EXPECT_EQ(out, chat(R"({"index":0,"delta":{"role":"assistant","content":""},)"
                      R"("logprobs":null,"finish_reason":null})") +
                     chat(R"({"index":1,"delta":{"role":"assistant","content":""},)"
                          R"("logprobs":null,"finish_reason":null})"));
}

TEST(ReplyStreamTest, ChatTextAndEndAreRecordsOfTheirOwn) {
  ReplyStream stream(chat_header(), 1, {});
  EXPECT_EQ(added(stream, 0, text_event("Hi \"you\"\n")),
            chat(R"({"index":0,"delta":{"content":"Hi \"you\"\n"},)"
                 R"("logprobs":null,"finish_reason":null})"));
  EXPECT_EQ(added(stream, 0, text_event("!", FinishReason::kStop)),
            chat(R"({"index":0,"delta":{"content":"!"},"logprobs":null,"finish_reason":null})") +
                chat(R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"})"));
}

TEST(ReplyStreamTest, CompletionTextAndEnd) {
  ReplyStream stream(completion_header(), 3, {});
  std::string out;
  stream.open({}, out);
  EXPECT_EQ(out, "");
  EXPECT_EQ(added(stream, 2, text_event(" to")),
            completion(R"({"text":" to","index":2,"logprobs":null,"finish_reason":null})"));
  EXPECT_EQ(added(stream, 1, end_event(FinishReason::kLength)),
            completion(R"({"text":"","index":1,"logprobs":null,"finish_reason":"length"})"));
}

TEST(ReplyStreamTest, EchoGoesToTheChoicesOfItsPrompt) {
  ReplyStream stream(completion_header(), 4, {});
  std::string out;
  stream.open({"one", "two"}, out);
  EXPECT_EQ(out,
            completion(R"({"text":"one","index":0,"logprobs":null,"finish_reason":null})") +
                completion(R"({"text":"one","index":1,"logprobs":null,"finish_reason":null})") +
                completion(R"({"text":"two","index":2,"logprobs":null,"finish_reason":null})") +
                completion(R"({"text":"two","index":3,"logprobs":null,"finish_reason":null})"));
}

TEST(ReplyStreamTest, TokenWithoutTextSendsNothing) {
  ReplyStream stream(chat_header(), 1, {});
  EXPECT_EQ(added(stream, 0, text_event("")), "");
}

TEST(ReplyStreamTest, EveryReasonToFinishHasAName) {
  ReplyStream stream(chat_header(), 1, {});
  const auto end = [](std::string_view name) {
    return chat(std::string(R"({"index":0,"delta":{},"logprobs":null,"finish_reason":")")
                    .append(name)
                    .append("\"}"));
  };
  EXPECT_EQ(added(stream, 0, end_event(FinishReason::kStop)), end("stop"));
  EXPECT_EQ(added(stream, 0, end_event(FinishReason::kLength)), end("length"));
  EXPECT_EQ(added(stream, 0, end_event(FinishReason::kCancelled)), end("abort"));
  EXPECT_EQ(added(stream, 0, end_event(FinishReason::kDeadline)), end("abort"));
  EXPECT_EQ(added(stream, 0, end_event(FinishReason::kError)), end("error"));
}

TEST(ReplyStreamTest, ClosesWithDone) {
  ReplyStream stream(chat_header(), 1, {});
  std::string out;
  stream.close({.prompt_tokens = 9, .completion_tokens = 2}, out);
  EXPECT_EQ(out, "data: [DONE]\n\n");
}

// OpenAI: usage is null in every record but the last, whose choices are empty.
TEST(ReplyStreamTest, UsageComesLastIfAskedFor) {
  ReplyHeader header = chat_header();
  header.include_usage = true;
  ReplyStream stream(header, 1, {});
  std::string out;
  stream.open({}, out);
  stream.add(0, text_event("Hi", FinishReason::kStop), out);
  stream.close({.prompt_tokens = 9, .completion_tokens = 2, .cached_tokens = 8}, out);
  const std::string head(kChatHead);
  EXPECT_EQ(out, head +
                     R"({"index":0,"delta":{"role":"assistant","content":""},)"
                     R"("logprobs":null,"finish_reason":null}],"usage":null})"
                     "\n\n" +
                     head +
                     R"({"index":0,"delta":{"content":"Hi"},)"
                     R"("logprobs":null,"finish_reason":null}],"usage":null})"
                     "\n\n" +
                     head +
                     R"({"index":0,"delta":{},)"
                     R"("logprobs":null,"finish_reason":"stop"}],"usage":null})"
                     "\n\n" +
                     head +
                     R"(],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,)"
                     R"("prompt_tokens_details":{"cached_tokens":8}}})"
                     "\n\n"
                     "data: [DONE]\n\n");
}

TEST(ReplyStreamTest, FailureIsARecordAndEndsWithoutUsage) {
  ReplyHeader header = completion_header();
  header.include_usage = true;
  ReplyStream stream(header, 1, {});
  std::string out;
  stream.fail(to_api_error(internal_error("the device is gone")), out);
  stream.close({}, out);
  EXPECT_EQ(out, R"(data: {"error":{"message":"the device is gone","type":"server_error",)"
                 R"("param":null,"code":null}})"
                 "\n\n"
                 "data: [DONE]\n\n");
}

TEST(ReplyStreamTest, NamesAreEscapedOnce) {
  ReplyHeader header = chat_header();
  header.model = "a\"b\xFF";
  ReplyStream stream(header, 1, {});
  const std::string out = added(stream, 0, text_event("x"));
  EXPECT_NE(out.find("\"model\":\"a\\\"b\uFFFD\""), std::string::npos) << out;
}

TEST(ReplyStreamTest, ChatLogprobsGoWithTheirText) {
  ReplyHeader header = chat_header();
  header.num_logprobs = 2;
  ReplyStream stream(header, 1, bytes_of({"Hi", "Yo"}));
  EXPECT_EQ(added(stream, 0, logprob_event(0, -0.25F, "Hi", {{0, -0.25F}, {1, -1.5F}})),
            chat(R"({"index":0,"delta":{"content":"Hi"},"logprobs":{"content":[)"
                 R"({"token":"Hi","logprob":-0.25,"bytes":[72,105],"top_logprobs":[)"
                 R"({"token":"Hi","logprob":-0.25,"bytes":[72,105]},)"
                 R"({"token":"Yo","logprob":-1.5,"bytes":[89,111]}]}],"refusal":null},)"
                 R"("finish_reason":null})"));
}

// The first token has half of a character, the second the rest.
TEST(ReplyStreamTest, LogprobsOfHeldBackTextComeWithIt) {
  ReplyHeader header = chat_header();
  header.num_logprobs = 0;
  ReplyStream stream(header, 2, bytes_of({"\xE8\x81", "\xAA", "x"}));
  EXPECT_EQ(added(stream, 0, logprob_event(0, -1.0F, "")), "");
  // Another choice's text does not take them.
  EXPECT_EQ(added(stream, 1, logprob_event(2, -3.0F, "x")),
            chat(R"({"index":1,"delta":{"content":"x"},"logprobs":{"content":[)"
                 R"({"token":"x","logprob":-3.0,"bytes":[120],"top_logprobs":[]}],)"
                 R"("refusal":null},"finish_reason":null})"));
  EXPECT_EQ(added(stream, 0, logprob_event(1, -2.0F, "聪")),
            chat("{\"index\":0,\"delta\":{\"content\":\"聪\"},\"logprobs\":{\"content\":["
                 "{\"token\":\"\uFFFD\",\"logprob\":-1.0,\"bytes\":[232,129],\"top_logprobs\":[]},"
                 "{\"token\":\"\uFFFD\",\"logprob\":-2.0,\"bytes\":[170],\"top_logprobs\":[]}],"
                 "\"refusal\":null},\"finish_reason\":null}"));
}

// An end token has a log-probability and no text.
TEST(ReplyStreamTest, LogprobsWithoutTextComeWithTheEnd) {
  ReplyHeader header = chat_header();
  header.num_logprobs = 0;
  ReplyStream stream(header, 1, bytes_of({"<|im_end|>"}));
  RequestEvent event = logprob_event(0, -0.125F, "");
  event.finish = FinishReason::kStop;
  EXPECT_EQ(added(stream, 0, event),
            chat(R"({"index":0,"delta":{},"logprobs":{"content":[{"token":"<|im_end|>",)"
                 R"("logprob":-0.125,"bytes":[60,124,105,109,95,101,110,100,124,62],)"
                 R"("top_logprobs":[]}],"refusal":null},"finish_reason":"stop"})"));
}

TEST(ReplyStreamTest, CompletionOffsetsGoOnFromRecordToRecord) {
  ReplyHeader header = completion_header();
  header.num_logprobs = 1;
  ReplyStream stream(header, 1, bytes_of({"né", "!"}));
  EXPECT_EQ(added(stream, 0, logprob_event(0, -1.0F, "né", {{0, -1.0F}})),
            completion(R"({"text":"né","index":0,"logprobs":{"tokens":["né"],)"
                       R"("token_logprobs":[-1.0],"top_logprobs":[{"né":-1.0}],)"
                       R"("text_offset":[0]},"finish_reason":null})"));
  EXPECT_EQ(added(stream, 0, logprob_event(1, -2.0F, "!", {{0, -0.5F}})),
            completion(R"({"text":"!","index":0,"logprobs":{"tokens":["!"],)"
                       R"("token_logprobs":[-2.0],"top_logprobs":[{"né":-0.5,"!":-2.0}],)"
                       R"("text_offset":[2]},"finish_reason":null})"));
}

// The engine may report log-probabilities for its own ends.
TEST(ReplyStreamTest, LogprobsThatNobodyAskedForAreLeftOut) {
  ReplyStream stream(chat_header(), 1, {});
  EXPECT_EQ(added(stream, 0, logprob_event(0, -1.0F, "x")),
            chat(R"({"index":0,"delta":{"content":"x"},"logprobs":null,"finish_reason":null})"));
}

}  // namespace
}  // namespace encore
