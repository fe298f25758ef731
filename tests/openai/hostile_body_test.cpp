// Bodies that have killed other parsers (V2 of known faults): each is refused in OpenAI's shape.
#include <gtest/gtest.h>

#include "request_bodies.h"

namespace encore {
namespace {

// What every parser says to a body that none of them can read.
std::string refusal(std::string_view body) {
  const ApiLimits limits = small_limits();
  GenerationRequest request;
  TokenizeRequest tokenize;
  std::vector<int32_t> ids;
  const std::optional<ApiError> errors[] = {
      parse_chat_request(body, limits, request), parse_completion_request(body, limits, request),
      parse_tokenize_request(body, tokenize), parse_detokenize_request(body, limits, ids)};
  for (const std::optional<ApiError>& error : errors) {
    EXPECT_EQ(message_of(error), message_of(errors[0]));
    EXPECT_TRUE(error && error->http_status == 400 && error->type == "invalid_request_error");
  }
  return message_of(errors[0]);
}

constexpr std::string_view kTooDeep =
    "the body is not a JSON object that can be read: it nests deeper than 64 levels";

TEST(HostileBodyTest, HundredThousandBracketsAnywhere) {
  const std::string brackets = repeat("[", 100000);
  EXPECT_EQ(refusal(chat_body(join({"\"tools\":", brackets}))), kTooDeep);
  EXPECT_EQ(refusal(chat_body(join({"\"unknown\":", brackets, repeat("]", 100000)}))), kTooDeep);
  EXPECT_EQ(refusal(chat_body(join({R"("response_format":{"type":"json_schema","json_schema":)",
                                    repeat("{\"a\":", 100000)}))),
            kTooDeep);
  EXPECT_EQ(refusal(brackets), kTooDeep);
}

TEST(HostileBodyTest, SixtyFourLevelsAreFineAndOneMoreIsNot) {
  const auto nested = [](size_t levels) {  // the body itself is the first one
    return chat_body(join({"\"unknown\":", repeat("[", levels - 1), repeat("]", levels - 1)}));
  };
  GenerationRequest request;
  EXPECT_EQ(message_of(parse_chat_request(nested(64), small_limits(), request)), "ok");
  EXPECT_EQ(message_of(parse_chat_request(nested(65), small_limits(), request)), kTooDeep);
}

// Brackets inside of text are text.
TEST(HostileBodyTest, BracketsInTextAreText) {
  GenerationRequest request;
  const std::string body = join({R"({"prompt":")", repeat("[", 100000), "\"}"});
  ASSERT_EQ(message_of(parse_completion_request(body, small_limits(), request)), "ok");
  EXPECT_EQ(std::get<std::string>(request.prompts[0]).size(), 100000U);
}

TEST(HostileBodyTest, TooManyValues) {
  const std::string body = completion_body(join({"\"unknown\":[", repeat("0,", 1 << 20), "0]"}));
  EXPECT_EQ(refusal(body),
            "the body is not a JSON object that can be read: it holds more than 1048576 values");
}

TEST(HostileBodyTest, EmptyBody) {
  EXPECT_EQ(refusal(""), "the body is empty; send a JSON object");
}

TEST(HostileBodyTest, CutBody) {
  const std::string whole = chat_body(R"("stop":["a\u00e9"],"temperature":0.5,"stream":true)");
  for (size_t size = 1; size < whole.size(); ++size) {
    EXPECT_EQ(refusal(whole.substr(0, size))
                  .rfind("the body is not a JSON object that can be read: parse error at line 1, "
                         "column ",
                         0),
              0U)
        << size;
  }
  EXPECT_EQ(refusal(R"({"messages":[)"),
            "the body is not a JSON object that can be read: parse error at line 1, column 14: "
            "syntax error while parsing value - unexpected end of input; expected '[', '{', or a "
            "literal");
}

TEST(HostileBodyTest, MalformedUtf8) {
  EXPECT_EQ(refusal("{\"prompt\":\"\xFF\xFE\"}"),
            "the body is not a JSON object that can be read: byte 11 is not part of a UTF-8 "
            "character");
  EXPECT_EQ(refusal("{\"prompt\":\"\xE8\x81"),
            "the body is not a JSON object that can be read: byte 11 is not part of a UTF-8 "
            "character");
}

// JSON can spell half of a surrogate pair; UTF-8 cannot hold it.
TEST(HostileBodyTest, LoneSurrogate) {
  EXPECT_NE(refusal(R"({"prompt":"\ud800"})").find("surrogate"), std::string::npos);
}

TEST(HostileBodyTest, WhatIsNotJson) {
  for (const std::string_view literal :
       {"NaN", "Infinity", "-Infinity", "nan", "0x10", "1.", "+1", "'text'", "undefined", "01"}) {
    const std::string said = refusal(completion_body(join({"\"temperature\":", literal})));
    EXPECT_NE(said.find("parse error at line 1, column "), std::string::npos) << said;
  }
  for (const std::string_view body :
       {"{} {}", "{}x", "{\"a\":1,}", "{a:1}", "// {}", "{\"a\" 1}"}) {
    EXPECT_NE(refusal(body).find("parse error at line 1, column "), std::string::npos) << body;
  }
}

TEST(HostileBodyTest, NulIsNotTheEnd) {
  EXPECT_EQ(refusal(std::string("{\"prompt\":\"a\"}\0x", 16)),
            "the body is not a JSON object that can be read: byte 14 is NUL");
}

TEST(HostileBodyTest, NumberOutOfRange) {
  EXPECT_EQ(refusal("{\"temperature\":1e999}"),
            "the body is not a JSON object that can be read: the number that ends at byte 20 is "
            "out of range");
}

TEST(HostileBodyTest, WrongTopType) {
  EXPECT_EQ(refusal("[]"), "the body is a JSON array; it must be an object");
  EXPECT_EQ(refusal("\"hi\""), "the body is a JSON string; it must be an object");
  EXPECT_EQ(refusal("null"), "the body is a JSON null; it must be an object");
  EXPECT_EQ(refusal("7"), "the body is a JSON number; it must be an object");
}

// The whole of it stays out of the message.
TEST(HostileBodyTest, LongGarbageIsNotQuoted) {
  EXPECT_LT(refusal(join({"{\"a\":\"", repeat("x", 1 << 20)})).size(), 200U);
  EXPECT_LT(refusal(join({"{", repeat("9", 1 << 20)})).size(), 200U);
  EXPECT_LT(refusal(join({R"({"a":)", repeat("9", 1 << 20)})).size(), 200U);
}

}  // namespace
}  // namespace encore
