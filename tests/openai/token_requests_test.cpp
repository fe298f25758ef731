#include <gtest/gtest.h>

#include "request_bodies.h"

namespace encore {
namespace {

TEST(TokenizeRequestTest, Text) {
  TokenizeRequest request;
  ASSERT_EQ(message_of(parse_tokenize_request(R"({"model":"smol","prompt":"hi"})", request)), "ok");
  EXPECT_EQ(std::get<std::string>(request.prompt), "hi");
  EXPECT_TRUE(request.reading.add_special_tokens);
  EXPECT_TRUE(request.reading.parse_special);
  EXPECT_FALSE(request.return_token_strs);

  ASSERT_EQ(message_of(parse_tokenize_request(
                R"({"prompt":"","add_special_tokens":false,"parse_special":false,)"
                R"("return_token_strs":true})",
                request)),
            "ok");
  EXPECT_EQ(std::get<std::string>(request.prompt), "");
  EXPECT_FALSE(request.reading.add_special_tokens);
  EXPECT_FALSE(request.reading.parse_special);
  EXPECT_TRUE(request.return_token_strs);
}

TEST(TokenizeRequestTest, Conversation) {
  TokenizeRequest request;
  ASSERT_EQ(message_of(parse_tokenize_request(
                R"({"messages":[{"role":"user","content":"hi"}],"add_generation_prompt":false})",
                request)),
            "ok");
  const auto& input = std::get<ChatInput>(request.prompt);
  EXPECT_EQ(input.messages_json, R"([{"role":"user","content":"hi"}])");
  EXPECT_FALSE(input.add_generation_prompt);
}

TEST(TokenizeRequestTest, Refusals) {
  const auto said = [](std::string_view body) {
    TokenizeRequest request;
    return message_of(parse_tokenize_request(body, request));
  };
  EXPECT_EQ(said("{}"), "prompt is missing; it must be a string, or messages must be given");
  EXPECT_EQ(said(R"({"prompt":["a"]})"), "prompt is an array; it must be a string");
  EXPECT_EQ(said(R"({"prompt":"a","messages":[]})"),
            "prompt and messages are given; leave one out");
  EXPECT_EQ(said(R"({"messages":"hi"})"),
            R"(messages is "hi"; it must be an array of at least one message)");
  EXPECT_EQ(said(R"({"prompt":"a","add_special_tokens":1})"),
            "add_special_tokens is 1; it must be true or false");
  EXPECT_EQ(said(R"({"prompt":"a","return_token_strs":"yes"})"),
            R"(return_token_strs is "yes"; it must be true or false)");
}

TEST(DetokenizeRequestTest, Ids) {
  std::vector<int32_t> ids = {9};
  ASSERT_EQ(message_of(parse_detokenize_request(R"({"tokens":[0,511,3.0]})", small_limits(), ids)),
            "ok");
  EXPECT_EQ(ids, (std::vector<int32_t>{0, 511, 3}));
  ASSERT_EQ(message_of(parse_detokenize_request(R"({"tokens":[]})", small_limits(), ids)), "ok");
  EXPECT_TRUE(ids.empty());
}

TEST(DetokenizeRequestTest, Refusals) {
  const auto said = [](std::string_view body) {
    std::vector<int32_t> ids;
    return message_of(parse_detokenize_request(body, small_limits(), ids));
  };
  EXPECT_EQ(said("{}"), "tokens is missing; it must be an array of token ids");
  EXPECT_EQ(said(R"({"tokens":"hi"})"), R"(tokens is "hi"; it must be an array of token ids)");
  EXPECT_EQ(said(R"({"tokens":[1,512]})"), "tokens[1] is 512; it must be a token id from 0 to 511");
  EXPECT_EQ(said(R"({"tokens":[1,"2"]})"),
            R"(tokens[1] is "2"; it must be a token id from 0 to 511)");
}

}  // namespace
}  // namespace encore
