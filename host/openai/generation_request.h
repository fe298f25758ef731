// What /v1/chat/completions and /v1/completions ask for, checked and in one form.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "encore/forward_batch.h"
#include "openai/api_error.h"

namespace encore {

// A conversation, for the chat template.
struct ChatInput {
  std::string messages_json;   // array of messages, as they came
  std::string tools_json;      // array, or empty
  std::string variables_json;  // object: chat_template_kwargs, or empty
  bool add_generation_prompt = true;
  int64_t num_messages = 0;
  int64_t text_bytes = 0;  // of the messages' contents, the parts' included
};

// How a prompt that is a text is read. Ids are as they are, and a conversation's template says what
// it has.
struct TextReading {
  bool add_special_tokens = true;  // those that the tokenizer puts around a text
  bool parse_special = true;       // control tokens spelled in the text are those tokens
};

using PromptInput = std::variant<std::string, std::vector<int32_t>, ChatInput>;

// Fields that were not given are empty: the configuration's and the model's defaults apply.
struct GenerationRequest {
  bool is_chat = false;
  std::string model;                 // empty: not given
  std::vector<PromptInput> prompts;  // chat: exactly one; completions: one or more
  TextReading reading;               // of prompts that are texts

  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<int32_t> top_k;
  std::optional<float> repetition_penalty;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::optional<uint64_t> seed;
  std::vector<TokenBias> logit_bias;  // ascending by token, at most 1,024

  std::optional<int32_t> max_tokens;  // max_completion_tokens wins over max_tokens
  int32_t min_tokens = 0;
  bool ignore_eos = false;
  std::vector<std::string> stop;            // at most 16 of at most 1,000 bytes (OpenAI allows 4)
  std::vector<int32_t> stop_token_ids;      // at most 128
  bool include_stop_str_in_output = false;  // refused if true

  int32_t n = 1;  // choices of each prompt
  bool stream = false;
  bool include_usage = false;  // stream_options.include_usage
  bool echo = false;           // completions: the prompt comes first
  // -1: none; else the sampled token's log-probability and those of this many most probable ones.
  int32_t num_logprobs = -1;
  std::string user;
};

// How much a request may ask for.
struct ApiLimits {
  int32_t vocab_size = 0;  // ids in prompts, logit_bias and stop_token_ids are below
  int32_t max_logprobs = 20;
  int32_t max_choices = 128;  // n
  int32_t max_prompts = 128;  // in one completion request
  int32_t max_stop_strings = 16;
  int32_t max_stop_bytes = 1000;
};

// Reads a body of at most 64 levels and 2^20 values. Of keys that stand twice, the last one counts;
// null is not given; 1 and 1.0 are one number, "1" is none. Unknown fields are ignored, and so are
// those that OpenAI or vLLM know and that change nothing here; those that would change the reply
// and are not built (response_format other than text, functions, audio, best_of != n, suffix, echo
// with logprobs, prompt_logprobs) are refused by name. Never throws, never recurses with the body's
// depth. Returns the error to answer with, or nothing.
std::optional<ApiError> parse_chat_request(std::string_view body, const ApiLimits& limits,
                                           GenerationRequest& out);
std::optional<ApiError> parse_completion_request(std::string_view body, const ApiLimits& limits,
                                                 GenerationRequest& out);

// /tokenize and /detokenize, as vLLM has them.
struct TokenizeRequest {
  PromptInput prompt;  // "prompt": text, or "messages": a conversation
  TextReading reading;
  bool return_token_strs = false;
};
std::optional<ApiError> parse_tokenize_request(std::string_view body, TokenizeRequest& out);
std::optional<ApiError> parse_detokenize_request(std::string_view body, const ApiLimits& limits,
                                                 std::vector<int32_t>& out);

}  // namespace encore
