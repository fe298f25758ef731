#include <gtest/gtest.h>

#include "request_bodies.h"

namespace encore {
namespace {

GenerationRequest parsed(std::string_view body) {
  GenerationRequest request;
  EXPECT_EQ(message_of(parse_chat_request(body, small_limits(), request)), "ok") << body;
  return request;
}

ChatInput conversation(std::string_view body) {
  const GenerationRequest request = parsed(body);
  EXPECT_EQ(request.prompts.size(), 1U);
  return std::get<ChatInput>(request.prompts.at(0));
}

TEST(ChatRequestTest, FieldsThatAreNotGivenAreEmpty) {
  const GenerationRequest request = parsed(chat_body(""));
  EXPECT_TRUE(request.is_chat);
  EXPECT_EQ(request.model, "");
  EXPECT_FALSE(request.temperature || request.top_p || request.min_p || request.top_k ||
               request.repetition_penalty || request.presence_penalty ||
               request.frequency_penalty || request.seed || request.max_tokens);
  EXPECT_TRUE(request.logit_bias.empty() && request.stop.empty() && request.stop_token_ids.empty());
  EXPECT_EQ(request.n, 1);
  EXPECT_EQ(request.min_tokens, 0);
  EXPECT_EQ(request.num_logprobs, -1);
  EXPECT_FALSE(request.stream || request.include_usage || request.ignore_eos || request.echo);
  EXPECT_EQ(request.user, "");
}

TEST(ChatRequestTest, NullIsNotGiven) {
  const GenerationRequest request = parsed(chat_body(
      R"("model":null,"temperature":null,"top_p":null,"n":null,"stop":null,"stream":null,)"
      R"("stream_options":null,"max_tokens":null,"max_completion_tokens":null,"seed":null,)"
      R"("logit_bias":null,"logprobs":null,"top_logprobs":null,"user":null,"tools":null,)"
      R"("tool_choice":null,"response_format":null,"functions":null,"function_call":null,)"
      R"("stop_token_ids":null,"chat_template_kwargs":null,"prompt_logprobs":null,)"
      R"("add_generation_prompt":null,"modalities":null,"audio":null,"min_tokens":null)"));
  EXPECT_FALSE(request.temperature || request.max_tokens || request.seed);
  EXPECT_EQ(request.n, 1);
  EXPECT_EQ(request.num_logprobs, -1);
  EXPECT_TRUE(std::get<ChatInput>(request.prompts[0]).add_generation_prompt);
}

TEST(ChatRequestTest, EveryField) {
  const GenerationRequest request = parsed(chat_body(
      R"("model":"smol","temperature":0.5,"top_p":0.25,"min_p":0.125,"top_k":40,)"
      R"("repetition_penalty":1.5,"presence_penalty":-2,"frequency_penalty":2,"seed":42,)"
      R"("logit_bias":{"7":-100,"3":0.5},"max_tokens":10,"min_tokens":2,"ignore_eos":true,)"
      R"("stop":["a","b"],"stop_token_ids":[5,6],"n":3,"stream":true,)"
      R"("stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":5,"user":"u")"));
  EXPECT_EQ(request.model, "smol");
  EXPECT_EQ(request.temperature, 0.5F);
  EXPECT_EQ(request.top_p, 0.25F);
  EXPECT_EQ(request.min_p, 0.125F);
  EXPECT_EQ(request.top_k, 40);
  EXPECT_EQ(request.repetition_penalty, 1.5F);
  EXPECT_EQ(request.presence_penalty, -2.0F);
  EXPECT_EQ(request.frequency_penalty, 2.0F);
  EXPECT_EQ(request.seed, 42U);
  ASSERT_EQ(request.logit_bias.size(), 2U);
  EXPECT_EQ(request.logit_bias[0].token, 3);
  EXPECT_EQ(request.logit_bias[0].bias, 0.5F);
  EXPECT_EQ(request.logit_bias[1].token, 7);
  EXPECT_EQ(request.logit_bias[1].bias, -100.0F);
  EXPECT_EQ(request.max_tokens, 10);
  EXPECT_EQ(request.min_tokens, 2);
  EXPECT_TRUE(request.ignore_eos);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.stop_token_ids, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(request.n, 3);
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.include_usage);
  EXPECT_EQ(request.num_logprobs, 5);
  EXPECT_EQ(request.user, "u");
}

TEST(ChatRequestTest, MaxCompletionTokensWins) {
  EXPECT_EQ(parsed(chat_body(R"("max_completion_tokens":7,"max_tokens":9)")).max_tokens, 7);
  EXPECT_EQ(parsed(chat_body(R"("max_tokens":9,"max_completion_tokens":7)")).max_tokens, 7);
  EXPECT_EQ(parsed(chat_body(R"("max_tokens":9,"max_completion_tokens":null)")).max_tokens, 9);
}

TEST(ChatRequestTest, NumbersMayBeWrittenEitherWay) {
  const GenerationRequest request =
      parsed(chat_body(R"("temperature":1,"n":2.0,"max_tokens":1e2,"seed":7.0)"));
  EXPECT_EQ(request.temperature, 1.0F);
  EXPECT_EQ(request.n, 2);
  EXPECT_EQ(request.max_tokens, 100);
  EXPECT_EQ(request.seed, 7U);
}

TEST(ChatRequestTest, SeedsAreAny64Bits) {
  EXPECT_EQ(parsed(chat_body(R"("seed":-1)")).seed, 18446744073709551615U);
  EXPECT_EQ(parsed(chat_body(R"("seed":-9223372036854775808)")).seed, 9223372036854775808U);
  EXPECT_EQ(parsed(chat_body(R"("seed":18446744073709551615)")).seed, 18446744073709551615U);
}

TEST(ChatRequestTest, EndsOfRangesAreInside) {
  const GenerationRequest low = parsed(chat_body(
      R"("temperature":0,"min_p":0,"top_k":-1,"presence_penalty":-2,"min_tokens":0,"n":1)"));
  EXPECT_EQ(low.temperature, 0.0F);
  EXPECT_EQ(low.top_k, -1);
  const GenerationRequest high = parsed(chat_body(
      R"("temperature":2,"top_p":1,"min_p":1,"top_k":2147483647,"n":8,"max_tokens":2147483647,)"
      R"("logit_bias":{"511":100},"stop":["1234567890","b","c","d"])"));
  EXPECT_EQ(high.temperature, 2.0F);
  EXPECT_EQ(high.max_tokens, 2147483647);
  EXPECT_EQ(high.logit_bias[0].token, 511);
}

// S1: what is above 0 stays above 0, though a float cannot hold it.
TEST(ChatRequestTest, TinyTopPStaysAboveZero) {
  EXPECT_EQ(parsed(chat_body(R"("top_p":1e-9)")).top_p, 1e-9F);
  EXPECT_GT(parsed(chat_body(R"("top_p":1e-300)")).top_p.value(), 0.0F);
}

TEST(ChatRequestTest, LogprobsAndHowMany) {
  EXPECT_EQ(parsed(chat_body(R"("logprobs":true)")).num_logprobs, 0);
  EXPECT_EQ(parsed(chat_body(R"("logprobs":true,"top_logprobs":3)")).num_logprobs, 3);
  EXPECT_EQ(parsed(chat_body(R"("logprobs":false)")).num_logprobs, -1);
}

TEST(ChatRequestTest, OneStopOrSeveral) {
  EXPECT_EQ(parsed(chat_body(R"("stop":"\n\n")")).stop, std::vector<std::string>{"\n\n"});
  EXPECT_TRUE(parsed(chat_body(R"("stop":[])")).stop.empty());
}

TEST(ChatRequestTest, LastOfSameNameCounts) {
  EXPECT_EQ(parsed(chat_body(R"("n":2,"n":3)")).n, 3);
  EXPECT_EQ(parsed(chat_body(R"("n":2,"n":null)")).n, 1);
  const GenerationRequest request = parsed(chat_body(R"("logit_bias":{"7":1,"5":3,"7":2})"));
  ASSERT_EQ(request.logit_bias.size(), 2U);
  EXPECT_EQ(request.logit_bias[1].token, 7);
  EXPECT_EQ(request.logit_bias[1].bias, 2.0F);
}

TEST(ChatRequestTest, FieldsThatChangeNothingAreIgnored) {
  parsed(chat_body(
      R"("store":true,"metadata":{"a":"b"},"service_tier":"auto","parallel_tool_calls":true,)"
      R"("reasoning_effort":"low","verbosity":"low","prompt_cache_key":"k","prediction":null,)"
      R"("safety_identifier":"s","response_format":{"type":"text"},"modalities":["text"],)"
      R"("skip_special_tokens":true,"include_stop_str_in_output":false,"use_beam_search":false,)"
      R"("continue_final_message":false,"functions":[],"documents":[],"echo":false,)"
      R"("tool_choice":"none","no_such_field":{"a":[1,2,{"b":null}]})"));
}

// Templates show a tool's keys to the model in their order.
TEST(ChatRequestTest, MessagesAndToolsArePassedOnAsTheyCame) {
  const std::string messages =
      R"([{"role":"system","content":"z"},{"role":"assistant","content":null,"tool_calls":)"
      R"([{"type":"function","id":"1","function":{"name":"f","arguments":"{}"}}]},)"
      R"({"role":"tool","tool_call_id":"1","content":"é \"quoted\""},)"
      R"({"role":"user","name":"bob","content":[{"type":"text","text":"a"}]}])";
  const std::string tools =
      R"([{"type":"function","function":{"name":"f","description":"d","parameters":)"
      R"({"type":"object","required":["b"],"properties":{"b":{"type":"number"},"a":{}}}}}])";
  std::string body = R"({"tools":)";
  body.append(tools).append(R"(,"tool_choice":"auto","messages":)").append(messages).append("}");
  const ChatInput input = conversation(body);
  EXPECT_EQ(input.messages_json, messages);
  EXPECT_EQ(input.num_messages, 4);
  EXPECT_EQ(input.text_bytes, 13);
  EXPECT_EQ(input.tools_json, tools);
  EXPECT_EQ(input.variables_json, "");
  EXPECT_TRUE(input.add_generation_prompt);
}

TEST(ChatRequestTest, ChoosingNoToolHidesThem) {
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}])";
  EXPECT_EQ(conversation(chat_body(tools)).tools_json,
            R"([{"type":"function","function":{"name":"f"}}])");
  EXPECT_EQ(conversation(chat_body(tools + R"(,"tool_choice":"none")")).tools_json, "");
  EXPECT_EQ(conversation(chat_body(R"("tools":[])")).tools_json, "");
}

TEST(ChatRequestTest, TemplateVariables) {
  const ChatInput input = conversation(chat_body(
      R"("chat_template_kwargs":{"enable_thinking":false},"add_generation_prompt":false)"));
  EXPECT_EQ(input.variables_json, R"({"enable_thinking":false})");
  EXPECT_FALSE(input.add_generation_prompt);
}

TEST(ChatRequestTest, MessagesMayHaveNoContent) {
  conversation(R"({"messages":[{"role":"assistant"},{"role":"user","content":null},)"
               R"({"role":"assistant","content":[],"tool_calls":[]},)"
               R"({"role":"assistant","content":"","tool_calls":null}]})");
}

}  // namespace
}  // namespace encore
