// Replies in OpenAI's shapes: one JSON object, or a stream of server-sent events.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "openai/api_error.h"

namespace encore {

// What all parts of a reply have in common.
struct ReplyHeader {
  bool is_chat = false;
  std::string id;  // "chatcmpl-..." or "cmpl-..."
  int64_t created = 0;  // seconds since 1970
  std::string model;
  bool include_usage = false;
  int32_t num_logprobs = -1;  // as asked for
};

// The bytes a token stands for, not necessarily whole characters; for "token" and "bytes" of
// log-probabilities.
using TokenBytes = std::function<std::string(int32_t token)>;

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;
};

// "stop", "length", "abort" (cancelled, or past its deadline) or "error".
std::string_view finish_reason_text(FinishReason reason);

// A streamed reply. Writes "data: {...}\n\n" records, built from a prefix prepared once, so that a
// token costs little more than the escaping of its text. One thread at a time.
class ReplyStream {
 public:
  ReplyStream(ReplyHeader header, int32_t num_choices, TokenBytes token_bytes);

  // Appends what is due when the stream opens: for chat, a record with the role for each choice;
  // for completions with echo, the prompt's text (`echo` is empty otherwise).
  void open(std::string_view echo, std::string& out);

  // Appends what `event` brings to choice `index`: nothing if it has neither text nor
  // log-probabilities nor an end. The end of a choice is a record of its own, with finish_reason.
  // Text is held back until there is some; log-probabilities of tokens without text go with the
  // next text.
  void add(int32_t index, const RequestEvent& event, std::string& out);

  // Appends an error record; then close() without usage.
  void fail(const ApiError& error, std::string& out);

  // Appends usage if it was asked for, and "data: [DONE]\n\n".
  void close(const Usage& usage, std::string& out);
};

// A whole reply, collected from events.
class ReplyCollector {
 public:
  ReplyCollector(ReplyHeader header, int32_t num_choices, TokenBytes token_bytes);

  void open(std::string_view echo);
  void add(int32_t index, const RequestEvent& event);
  // The body, once every choice has finished.
  std::string body(const Usage& usage) const;
};

// Bodies of the small endpoints.
struct ModelCard {
  std::string name;
  int64_t created = 0;
  int32_t max_model_len = 0;  // tokens of prompt and reply that one request may have
};
std::string models_json(const ModelCard& model);
std::string model_json(const ModelCard& model);
std::string tokenize_json(const std::vector<int32_t>& ids, int32_t max_model_len,
                          const std::vector<std::string>* token_strs);
std::string detokenize_json(std::string_view text);

}  // namespace encore
