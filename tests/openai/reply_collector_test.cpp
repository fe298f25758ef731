#include <gtest/gtest.h>

#include "openai/reply_writer.h"
#include "reply_events.h"

namespace encore {
namespace {

TEST(ReplyCollectorTest, Chat) {
  ReplyCollector reply(chat_header(), 1, {});
  reply.open({});
  reply.add(0, text_event("Hello"));
  reply.add(0, text_event(""));
  reply.add(0, text_event(" \"you\"\n", FinishReason::kStop));
  EXPECT_EQ(reply.body({.prompt_tokens = 19, .completion_tokens = 3, .cached_tokens = 16}),
            R"({"id":"chatcmpl-1","object":"chat.completion","created":1700000000,)"
            R"("model":"smol","choices":[{"index":0,"message":{"role":"assistant",)"
            R"("content":"Hello \"you\"\n","refusal":null},"logprobs":null,)"
            R"("finish_reason":"stop"}],"usage":{"prompt_tokens":19,"completion_tokens":3,)"
            R"("total_tokens":22,"prompt_tokens_details":{"cached_tokens":16}}})");
}

TEST(ReplyCollectorTest, CompletionsOfSeveralPromptsWithEcho) {
  ReplyCollector reply(completion_header(), 4, {});
  reply.open({"one", "two"});
  reply.add(3, text_event(" D", FinishReason::kLength));
  reply.add(0, text_event(" A", FinishReason::kStop));
  reply.add(2, text_event(" C", FinishReason::kDeadline));
  reply.add(1, text_event(" B", FinishReason::kError));
  EXPECT_EQ(reply.body({.prompt_tokens = 2, .completion_tokens = 4}),
            R"({"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"smol",)"
            R"("choices":[)"
            R"({"text":"one A","index":0,"logprobs":null,"finish_reason":"stop"},)"
            R"({"text":"one B","index":1,"logprobs":null,"finish_reason":"error"},)"
            R"({"text":"two C","index":2,"logprobs":null,"finish_reason":"abort"},)"
            R"({"text":"two D","index":3,"logprobs":null,"finish_reason":"length"}],)"
            R"("usage":{"prompt_tokens":2,"completion_tokens":4,"total_tokens":6,)"
            R"("prompt_tokens_details":{"cached_tokens":0}}})");
}

TEST(ReplyCollectorTest, ChatLogprobsOfEveryToken) {
  ReplyHeader header = chat_header();
  header.num_logprobs = 0;
  ReplyCollector reply(header, 1, bytes_of({"\xE8\x81", "\xAA", "<end>"}));
  reply.add(0, logprob_event(0, -1.0F, ""));
  reply.add(0, logprob_event(1, -2.0F, "聪"));
  RequestEvent end = logprob_event(2, -3.0F, "");
  end.finish = FinishReason::kStop;
  reply.add(0, end);
  EXPECT_EQ(
      reply.body({.prompt_tokens = 1, .completion_tokens = 3}),
      "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1700000000,"
      "\"model\":\"smol\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
      "\"content\":\"聪\",\"refusal\":null},\"logprobs\":{\"content\":["
      "{\"token\":\"\uFFFD\",\"logprob\":-1.0,\"bytes\":[232,129],\"top_logprobs\":[]},"
      "{\"token\":\"\uFFFD\",\"logprob\":-2.0,\"bytes\":[170],\"top_logprobs\":[]},"
      "{\"token\":\"<end>\",\"logprob\":-3.0,\"bytes\":[60,101,110,100,62],\"top_logprobs\":[]}],"
      "\"refusal\":null},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1,"
      "\"completion_tokens\":3,\"total_tokens\":4,"
      "\"prompt_tokens_details\":{\"cached_tokens\":0}}}");
}

TEST(ReplyCollectorTest, CompletionLogprobs) {
  ReplyHeader header = completion_header();
  header.num_logprobs = 1;
  ReplyCollector reply(header, 1, bytes_of({"Hi", " you"}));
  reply.add(0, logprob_event(0, -0.5F, "Hi", {{0, -0.5F}}));
  reply.add(0, logprob_event(1, -1.5F, " you", {{0, -0.75F}}));
  reply.add(0, end_event(FinishReason::kLength));
  EXPECT_EQ(
      reply.body({.prompt_tokens = 1, .completion_tokens = 2}),
      R"({"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"smol",)"
      R"("choices":[{"text":"Hi you","index":0,"logprobs":{"tokens":["Hi"," you"],)"
      R"("token_logprobs":[-0.5,-1.5],"top_logprobs":[{"Hi":-0.5},{"Hi":-0.75," you":-1.5}],)"
      R"("text_offset":[0,2]},"finish_reason":"length"}],"usage":{"prompt_tokens":1,)"
      R"("completion_tokens":2,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":0}}})");
}

}  // namespace
}  // namespace encore
