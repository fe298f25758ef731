#include <gtest/gtest.h>

#include "request_bodies.h"

namespace encore {
namespace {

GenerationRequest parsed(std::string_view body) {
  GenerationRequest request;
  EXPECT_EQ(message_of(parse_completion_request(body, small_limits(), request)), "ok") << body;
  return request;
}

std::vector<PromptInput> prompts(std::string_view prompt) {
  return parsed(join({"{\"prompt\":", prompt, "}"})).prompts;
}

using Ids = std::vector<int32_t>;

TEST(CompletionRequestTest, PromptTakesFourForms) {
  const std::vector<PromptInput> text = prompts(R"("hi")");
  ASSERT_EQ(text.size(), 1U);
  EXPECT_EQ(std::get<std::string>(text[0]), "hi");

  const std::vector<PromptInput> texts = prompts(R"(["a","","c"])");
  ASSERT_EQ(texts.size(), 3U);
  EXPECT_EQ(std::get<std::string>(texts[0]), "a");
  EXPECT_EQ(std::get<std::string>(texts[1]), "");
  EXPECT_EQ(std::get<std::string>(texts[2]), "c");

  const std::vector<PromptInput> ids = prompts("[1,2.0,511]");
  ASSERT_EQ(ids.size(), 1U);
  EXPECT_EQ(std::get<Ids>(ids[0]), (Ids{1, 2, 511}));

  const std::vector<PromptInput> lists = prompts("[[1,2],[0]]");
  ASSERT_EQ(lists.size(), 2U);
  EXPECT_EQ(std::get<Ids>(lists[0]), (Ids{1, 2}));
  EXPECT_EQ(std::get<Ids>(lists[1]), Ids{0});
}

TEST(CompletionRequestTest, EmptyTextIsAPrompt) {
  EXPECT_EQ(std::get<std::string>(prompts(R"("")")[0]), "");
}

TEST(CompletionRequestTest, FieldsOfItsOwn) {
  const GenerationRequest plain = parsed(completion_body(""));
  EXPECT_FALSE(plain.is_chat);
  EXPECT_FALSE(plain.echo);
  EXPECT_EQ(plain.num_logprobs, -1);
  EXPECT_FALSE(plain.max_tokens);
  EXPECT_TRUE(plain.reading.parse_special);

  EXPECT_TRUE(parsed(completion_body(R"("echo":true)")).echo);
  EXPECT_FALSE(parsed(completion_body(R"("parse_special":false)")).reading.parse_special);
  EXPECT_EQ(parsed(completion_body(R"("logprobs":0)")).num_logprobs, 0);
  EXPECT_EQ(parsed(completion_body(R"("logprobs":5)")).num_logprobs, 5);
  EXPECT_EQ(parsed(completion_body(R"("n":2,"best_of":2)")).n, 2);
}

TEST(CompletionRequestTest, SharedFields) {
  const GenerationRequest request = parsed(completion_body(
      R"("model":"smol","temperature":0.5,"max_tokens":16,"stop":"\n","stream":true,)"
      R"("stream_options":{"include_usage":true},"suffix":null,"best_of":null,"user":"u")"));
  EXPECT_EQ(request.model, "smol");
  EXPECT_EQ(request.temperature, 0.5F);
  EXPECT_EQ(request.max_tokens, 16);
  EXPECT_EQ(request.stop, std::vector<std::string>{"\n"});
  EXPECT_TRUE(request.stream && request.include_usage);
}

// A request object may be used again.
TEST(CompletionRequestTest, NothingIsLeftOfTheRequestBefore) {
  GenerationRequest request;
  ASSERT_FALSE(
      parse_chat_request(chat_body(R"("n":2,"stop":"a","seed":1)"), small_limits(), request));
  ASSERT_FALSE(parse_completion_request(completion_body(""), small_limits(), request));
  EXPECT_FALSE(request.is_chat || request.seed);
  EXPECT_EQ(request.prompts.size(), 1U);
  EXPECT_EQ(request.n, 1);
  EXPECT_TRUE(request.stop.empty());
}

}  // namespace
}  // namespace encore
