// What is said of each field that is wrong, word for word, and which field it names.
#include <gtest/gtest.h>

#include <ostream>

#include "request_bodies.h"

namespace encore {
namespace {

struct Wrong {
  std::string_view fields;  // added to a body that is fine
  std::string_view param;
  std::string_view message;
};

void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.fields; }

class SharedField : public testing::TestWithParam<Wrong> {};
class ChatField : public testing::TestWithParam<Wrong> {};
class CompletionField : public testing::TestWithParam<Wrong> {};

void expect_refusal(const std::optional<ApiError>& error, const Wrong& wrong) {
  ASSERT_TRUE(error.has_value()) << "accepted: " << wrong.fields;
  EXPECT_EQ(error->message, wrong.message);
  EXPECT_EQ(error->param, wrong.param);
  EXPECT_EQ(error->http_status, 400);
  EXPECT_EQ(error->type, "invalid_request_error");
}

TEST_P(SharedField, IsRefusedInBothRequests) {
  GenerationRequest request;
  expect_refusal(parse_chat_request(chat_body(GetParam().fields), small_limits(), request),
                 GetParam());
  expect_refusal(
      parse_completion_request(completion_body(GetParam().fields), small_limits(), request),
      GetParam());
}

TEST_P(ChatField, IsRefused) {
  GenerationRequest request;
  expect_refusal(parse_chat_request(chat_body(GetParam().fields), small_limits(), request),
                 GetParam());
}

TEST_P(CompletionField, IsRefused) {
  GenerationRequest request;
  expect_refusal(
      parse_completion_request(completion_body(GetParam().fields), small_limits(), request),
      GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Sampling, SharedField,
    testing::Values(
        Wrong{R"("temperature":3)", "temperature",
              "temperature is 3; it must be a number from 0 to 2"},
        Wrong{R"("temperature":-0.5)", "temperature",
              "temperature is -0.5; it must be a number from 0 to 2"},
        Wrong{R"("temperature":"0.5")", "temperature",
              R"(temperature is "0.5"; it must be a number from 0 to 2)"},
        Wrong{R"("temperature":[])", "temperature",
              "temperature is an empty array; it must be a number from 0 to 2"},
        Wrong{R"("top_p":0)", "top_p", "top_p is 0; it must be a number above 0 and at most 1"},
        Wrong{R"("top_p":1.5)", "top_p", "top_p is 1.5; it must be a number above 0 and at most 1"},
        Wrong{R"("min_p":2)", "min_p", "min_p is 2; it must be a number from 0 to 1"},
        Wrong{R"("top_k":-2)", "top_k", "top_k is -2; it must be an integer from -1 to 2147483647"},
        Wrong{R"("top_k":2.5)", "top_k",
              "top_k is 2.5; it must be an integer from -1 to 2147483647"},
        Wrong{R"("repetition_penalty":0)", "repetition_penalty",
              "repetition_penalty is 0; it must be a number from 0.01 to 100"},
        Wrong{R"("repetition_penalty":1e-45)", "repetition_penalty",
              "repetition_penalty is 1e-45; it must be a number from 0.01 to 100"},
        Wrong{R"("presence_penalty":2.5)", "presence_penalty",
              "presence_penalty is 2.5; it must be a number from -2 to 2"},
        Wrong{R"("frequency_penalty":true)", "frequency_penalty",
              "frequency_penalty is true; it must be a number from -2 to 2"},
        Wrong{R"("seed":1.5)", "seed", "seed is 1.5; it must be an integer of 64 bits"},
        Wrong{R"("seed":18446744073709551616)", "seed",
              "seed is 18446744073709551616; it must be an integer of 64 bits"},
        Wrong{R"("logit_bias":[])", "logit_bias",
              "logit_bias is an empty array; it must be an object from token ids to numbers from "
              "-100 to 100"},
        Wrong{R"("logit_bias":{"512":1})", "logit_bias",
              R"(logit_bias has the key "512"; it must be a token id from 0 to 511)"},
        Wrong{R"("logit_bias":{"-1":1})", "logit_bias",
              R"(logit_bias has the key "-1"; it must be a token id from 0 to 511)"},
        Wrong{R"("logit_bias":{"07":1})", "logit_bias",
              R"(logit_bias has the key "07"; it must be a token id from 0 to 511)"},
        Wrong{R"("logit_bias":{"hello":1})", "logit_bias",
              R"(logit_bias has the key "hello"; it must be a token id from 0 to 511)"},
        Wrong{R"("logit_bias":{"7":101})", "logit_bias.7",
              "logit_bias.7 is 101; it must be a number from -100 to 100"},
        Wrong{R"("logit_bias":{"7":null})", "logit_bias.7",
              "logit_bias.7 is null; it must be a number from -100 to 100"}));

INSTANTIATE_TEST_SUITE_P(
    LengthsAndStops, SharedField,
    testing::Values(
        Wrong{R"("max_tokens":0)", "max_tokens",
              "max_tokens is 0; it must be an integer from 1 to 2147483647"},
        Wrong{R"("max_tokens":"16")", "max_tokens",
              R"(max_tokens is "16"; it must be an integer from 1 to 2147483647)"},
        Wrong{R"("max_tokens":4294967297)", "max_tokens",
              "max_tokens is 4294967297; it must be an integer from 1 to 2147483647"},
        Wrong{R"("max_tokens":1e300)", "max_tokens",
              "max_tokens is 1e+300; it must be an integer from 1 to 2147483647"},
        Wrong{R"("max_completion_tokens":-1)", "max_completion_tokens",
              "max_completion_tokens is -1; it must be an integer from 1 to 2147483647"},
        Wrong{R"("min_tokens":-1)", "min_tokens",
              "min_tokens is -1; it must be an integer from 0 to 2147483647"},
        Wrong{R"("min_tokens":6,"max_tokens":5)", "min_tokens",
              "min_tokens is 6; it must be at most max_tokens, 5"},
        Wrong{R"("ignore_eos":1)", "ignore_eos", "ignore_eos is 1; it must be true or false"},
        Wrong{R"("stop":7)", "stop", "stop is 7; it must be a string or an array of strings"},
        Wrong{R"("stop":"")", "stop", "stop is empty; leave it out"},
        Wrong{R"("stop":["a",""])", "stop[1]", "stop[1] is empty; leave it out"},
        Wrong{R"("stop":["a",null])", "stop[1]", "stop[1] is null; it must be a string"},
        Wrong{R"("stop":["a","b","c","d","e"])", "stop", "stop holds 5 strings; the limit is 4"},
        Wrong{R"("stop":"0123456789a")", "stop", "stop has 11 bytes; the limit is 10"},
        Wrong{R"("stop_token_ids":7)", "stop_token_ids",
              "stop_token_ids is 7; it must be an array of token ids"},
        Wrong{R"("stop_token_ids":[1,512])", "stop_token_ids[1]",
              "stop_token_ids[1] is 512; it must be a token id from 0 to 511"},
        Wrong{R"("include_stop_str_in_output":true)", "include_stop_str_in_output",
              "include_stop_str_in_output is true; that is not supported, so leave it out"}));

INSTANTIATE_TEST_SUITE_P(
    Reply, SharedField,
    testing::Values(
        Wrong{R"("model":7)", "model", "model is 7; it must be a string"},
        Wrong{R"("user":{})", "user", "user is an object; it must be a string"},
        Wrong{R"("n":0)", "n", "n is 0; it must be an integer from 1 to 8"},
        Wrong{R"("n":9)", "n", "n is 9; it must be an integer from 1 to 8"},
        Wrong{R"("stream":"yes")", "stream", R"(stream is "yes"; it must be true or false)"},
        Wrong{R"("stream_options":{"include_usage":true})", "stream_options",
              "stream_options is given without stream; set stream to true or leave it out"},
        Wrong{R"("stream":true,"stream_options":true)", "stream_options",
              "stream_options is true; it must be an object"},
        Wrong{R"("stream":true,"stream_options":{"include_usage":1})",
              "stream_options.include_usage",
              "stream_options.include_usage is 1; it must be true or false"},
        Wrong{R"("stream":true,"stream_options":{"continuous_usage_stats":true})",
              "stream_options.continuous_usage_stats",
              "stream_options.continuous_usage_stats is true; that is not supported, so leave it "
              "out"},
        Wrong{R"("response_format":{"type":"json_object"})", "response_format.type",
              R"(response_format.type is "json_object"; it must be "text": replies in a given )"
              "format are not supported"},
        Wrong{R"("response_format":{})", "response_format.type",
              R"(response_format.type is missing; it must be "text": replies in a given format )"
              "are not supported"},
        Wrong{R"("response_format":"text")", "response_format",
              R"(response_format is "text"; it must be an object with a type)"},
        Wrong{R"("prompt_logprobs":0)", "prompt_logprobs",
              "prompt_logprobs is 0; that is not supported, so leave it out"},
        Wrong{R"("guided_json":{"type":"object"})", "guided_json",
              "guided_json is an object; that is not supported, so leave it out"},
        Wrong{R"("grammar":"x")", "grammar",
              R"(grammar is "x"; that is not supported, so leave it out)"},
        Wrong{R"("json_schema":"x")", "json_schema",
              R"(json_schema is "x"; that is not supported, so leave it out)"},
        Wrong{R"("regex":"x")", "regex", R"(regex is "x"; that is not supported, so leave it out)"},
        Wrong{R"("ebnf":"x")", "ebnf", R"(ebnf is "x"; that is not supported, so leave it out)"},
        Wrong{R"("structural_tag":"x")", "structural_tag",
              R"(structural_tag is "x"; that is not supported, so leave it out)"},
        Wrong{R"("guided_decoding":"x")", "guided_decoding",
              R"(guided_decoding is "x"; that is not supported, so leave it out)"},
        Wrong{R"("guided_choice":"x")", "guided_choice",
              R"(guided_choice is "x"; that is not supported, so leave it out)"},
        Wrong{R"("guided_grammar":"x")", "guided_grammar",
              R"(guided_grammar is "x"; that is not supported, so leave it out)"},
        Wrong{R"("guided_regex":"x")", "guided_regex",
              R"(guided_regex is "x"; that is not supported, so leave it out)"},
        Wrong{R"("structured_outputs":"x")", "structured_outputs",
              R"(structured_outputs is "x"; that is not supported, so leave it out)"},
        Wrong{R"("use_beam_search":true)", "use_beam_search",
              "use_beam_search is true; that is not supported, so leave it out"},
        Wrong{R"("skip_special_tokens":false)", "skip_special_tokens",
              "skip_special_tokens is false; that is not supported, so leave it out"},
        Wrong{R"("cache_salt":"s")", "cache_salt",
              R"(cache_salt is "s"; that is not supported, so leave it out)"}));

INSTANTIATE_TEST_SUITE_P(
    Logprobs, ChatField,
    testing::Values(
        Wrong{R"("logprobs":3)", "logprobs", "logprobs is 3; it must be true or false"},
        Wrong{R"("logprobs":true,"top_logprobs":6)", "top_logprobs",
              "top_logprobs is 6; it must be an integer from 0 to 5"},
        Wrong{R"("logprobs":true,"top_logprobs":-1)", "top_logprobs",
              "top_logprobs is -1; it must be an integer from 0 to 5"},
        Wrong{R"("top_logprobs":2)", "top_logprobs",
              "top_logprobs is given without logprobs; set logprobs to true or leave it out"},
        Wrong{R"("logprobs":false,"top_logprobs":0)", "top_logprobs",
              "top_logprobs is given without logprobs; set logprobs to true or leave it out"}));

INSTANTIATE_TEST_SUITE_P(
    Tools, ChatField,
    testing::Values(
        Wrong{R"("tools":{})", "tools", "tools is an object; it must be an array of tools"},
        Wrong{R"("tools":[7])", "tools[0]", "tools[0] is 7; it must be an object"},
        Wrong{R"("tools":[{"type":"web_search"}])", "tools[0].type",
              R"(tools[0].type is "web_search"; it must be "function")"},
        Wrong{R"("tools":[{"type":"function"}])", "tools[0].function",
              "tools[0].function is missing; it must be an object with a name"},
        Wrong{R"("tools":[{"type":"function","function":{"name":7}}])", "tools[0].function.name",
              "tools[0].function.name is 7; it must be a string"},
        Wrong{R"("tool_choice":"required")", "tool_choice",
              R"(tool_choice is "required"; it must be "auto" or "none": this server cannot make )"
              "the model call a tool"},
        Wrong{R"("tool_choice":{"type":"function","function":{"name":"f"}})", "tool_choice",
              R"(tool_choice is an object; it must be "auto" or "none": this server cannot make )"
              "the model call a tool"},
        Wrong{R"("functions":[{"name":"f"}])", "functions",
              "functions is an array; that is not supported, so leave it out"},
        Wrong{R"("function_call":"auto")", "function_call",
              R"(function_call is "auto"; that is not supported, so leave it out)"}));

INSTANTIATE_TEST_SUITE_P(
    Conversation, ChatField,
    testing::Values(Wrong{R"("modalities":["text","audio"])", "modalities",
                          R"(modalities is an array; it must be ["text"])"},
                    Wrong{R"("audio":{"voice":"alloy"})", "audio",
                          "audio is an object; that is not supported, so leave it out"},
                    Wrong{R"("chat_template":"{{ x }}")", "chat_template",
                          R"(chat_template is "{{ x }}"; that is not supported, so leave it out)"},
                    Wrong{R"("chat_template_kwargs":[])", "chat_template_kwargs",
                          "chat_template_kwargs is an empty array; it must be an object"},
                    Wrong{R"("add_generation_prompt":"no")", "add_generation_prompt",
                          R"(add_generation_prompt is "no"; it must be true or false)"},
                    Wrong{R"("continue_final_message":true)", "continue_final_message",
                          "continue_final_message is true; that is not supported, so leave it out"},
                    Wrong{R"("echo":true)", "echo",
                          "echo is true; that is not supported, so leave it out"},
                    Wrong{R"("documents":[{"text":"d"}])", "documents",
                          "documents is an array; that is not supported, so leave it out"}));

// The last field of a name counts: these replace the messages.
INSTANTIATE_TEST_SUITE_P(
    Messages, ChatField,
    testing::Values(
        Wrong{R"("messages":"hi")", "messages",
              R"(messages is "hi"; it must be an array of at least one message)"},
        Wrong{R"("messages":null)", "messages",
              "messages is missing; it must be an array of at least one message"},
        Wrong{R"("messages":[])", "messages",
              "messages is an empty array; it must be an array of at least one message"},
        Wrong{R"("messages":[{"role":"user"},"hi"])", "messages[1]",
              R"(messages[1] is "hi"; it must be an object with role and content)"},
        Wrong{R"("messages":[{"content":"hi"}])", "messages[0].role",
              R"(messages[0].role is missing; it must be a string, such as "user")"},
        Wrong{R"("messages":[{"role":7,"content":"hi"}])", "messages[0].role",
              R"(messages[0].role is 7; it must be a string, such as "user")"},
        Wrong{R"("messages":[{"role":"user","content":7}])", "messages[0].content",
              R"(messages[0].content is 7; it must be a string or an array of parts of type )"
              R"("text")"},
        Wrong{R"("messages":[{"role":"user","content":["hi"]}])", "messages[0].content[0]",
              R"(messages[0].content[0] is "hi"; it must be an object with type "text" and text)"},
        Wrong{R"("messages":[{"role":"user","content":[{"type":"text","text":"a"},)"
              R"({"type":"image_url","image_url":{"url":"x"}}]}])",
              "messages[0].content[1].type",
              R"(messages[0].content[1] is of type "image_url"; this server takes parts of type )"
              R"("text" only)"},
        Wrong{R"("messages":[{"role":"user","content":[{"text":"a"}]}])",
              "messages[0].content[0].type",
              R"(messages[0].content[0].type is missing; it must be "text")"},
        Wrong{R"("messages":[{"role":"user","content":[{"type":"text","text":7}]}])",
              "messages[0].content[0].text",
              "messages[0].content[0].text is 7; it must be a string"},
        Wrong{R"("messages":[{"role":"assistant","tool_calls":{}}])", "messages[0].tool_calls",
              "messages[0].tool_calls is an object; it must be an array of objects"},
        Wrong{R"("messages":[{"role":"assistant","tool_calls":["f"]}])",
              "messages[0].tool_calls[0]",
              R"(messages[0].tool_calls[0] is "f"; it must be an object)"}));

INSTANTIATE_TEST_SUITE_P(
    Prompts, CompletionField,
    testing::Values(
        Wrong{R"("prompt":null)", "prompt",
              "prompt is missing; it must be a string, an array of strings, an array of token ids "
              "or an array of such arrays"},
        Wrong{R"("prompt":7)", "prompt",
              "prompt is 7; it must be a string, an array of strings, an array of token ids or an "
              "array of such arrays"},
        Wrong{R"("prompt":[])", "prompt",
              "prompt is an empty array; it must be a string, an array of strings, an array of "
              "token ids or an array of such arrays"},
        Wrong{R"("prompt":[true])", "prompt[0]",
              "prompt[0] is true; it must be text or a token id"},
        Wrong{R"("prompt":["a",7])", "prompt[1]",
              "prompt[1] is 7; it must be a string, as prompt[0] is"},
        Wrong{R"("prompt":[[7],"a"])", "prompt[1]",
              R"(prompt[1] is "a"; it must be an array of token ids)"},
        Wrong{R"("prompt":[7,"a"])", "prompt[1]",
              R"(prompt[1] is "a"; it must be a token id from 0 to 511)"},
        Wrong{R"("prompt":[512])", "prompt[0]",
              "prompt[0] is 512; it must be a token id from 0 to 511"},
        Wrong{R"("prompt":[-1])", "prompt[0]",
              "prompt[0] is -1; it must be a token id from 0 to 511"},
        Wrong{R"("prompt":[[7],[]])", "prompt[1]",
              "prompt[1] is empty; it needs at least one token id"},
        Wrong{R"("prompt":[[7],[1,7.5]])", "prompt[1][1]",
              "prompt[1][1] is 7.5; it must be a token id from 0 to 511"},
        Wrong{R"("prompt":["a","b","c","d","e"])", "prompt",
              "prompt holds 5 prompts; the limit is 4"}));

INSTANTIATE_TEST_SUITE_P(
    Reply, CompletionField,
    testing::Values(
        Wrong{R"("logprobs":true)", "logprobs",
              "logprobs is true; it must be an integer from 0 to 5"},
        Wrong{R"("logprobs":6)", "logprobs", "logprobs is 6; it must be an integer from 0 to 5"},
        Wrong{R"("echo":1)", "echo", "echo is 1; it must be true or false"},
        Wrong{R"("echo":true,"logprobs":1)", "echo",
              "echo is true and logprobs is given; log-probabilities of the prompt are not "
              "supported, so leave one of them out"},
        Wrong{R"("best_of":3,"n":2)", "best_of",
              "best_of is 3 and n is 2; choices are not ranked, so leave best_of out"},
        Wrong{R"("suffix":"end")", "suffix",
              R"(suffix is "end"; that is not supported, so leave it out)"}));

// Values are quoted in one short line.
TEST(FieldErrorsTest, LongAndOddValuesAreCut) {
  GenerationRequest request;
  const std::string text = repeat("聪", 1000);
  const std::optional<ApiError> error =
      parse_chat_request(chat_body(join({"\"n\":\"a\\n", text, "\""})), small_limits(), request);
  EXPECT_EQ(message_of(error),
            join({"n is \"a ", repeat("聪", 19), "...\"; it must be an integer from 1 to 8"}));
}

TEST(FieldErrorsTest, TooManyStopTokensAndBiases) {
  GenerationRequest request;
  ApiLimits limits = small_limits();
  EXPECT_EQ(
      message_of(parse_chat_request(
          chat_body(join({"\"stop_token_ids\":[", repeat("1,", 128), "1]"})), limits, request)),
      "stop_token_ids holds 129 token ids; the limit is 128");
  limits.vocab_size = 2000;
  std::string biases = "\"logit_bias\":{\"0\":1";
  for (int i = 1; i <= 1024; ++i) biases.append(",\"").append(std::to_string(i)).append("\":1");
  EXPECT_EQ(message_of(parse_chat_request(chat_body(biases + "}"), limits, request)),
            "logit_bias holds 1025 tokens; the limit is 1024");
}

}  // namespace
}  // namespace encore
