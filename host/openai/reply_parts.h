// What streamed and whole replies have in common.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/request.h"

namespace encore {

struct ReplyHeader {
  bool is_chat = false;
  std::string id;       // "chatcmpl-..." or "cmpl-..."
  int64_t created = 0;  // seconds since 1970
  std::string model;
  bool include_usage = false;  // of a stream; a whole reply always has it
  int32_t num_logprobs = -1;   // as asked for
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt
};

// "stop", "length", "abort" (cancelled, or past its deadline) or "error".
std::string_view finish_reason_text(FinishReason reason);

// An object up to its choices: {"id":...,"object":...,"created":...,"model":...,"choices":[
void append_reply_head(const ReplyHeader& header, std::string_view object, std::string& out);

// {"prompt_tokens":...}
void append_usage(const Usage& usage, std::string& out);

}  // namespace encore
