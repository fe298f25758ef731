// Replies in OpenAI's shapes: one JSON object, or a stream of server-sent events.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "openai/api_error.h"
#include "openai/logprob_text.h"
#include "openai/reply_parts.h"

namespace encore {

// A streamed reply. Writes "data: {...}\n\n" records, built from a prefix prepared once, so that a
// token costs little more than the escaping of its text. One thread at a time.
class ReplyStream {
 public:
  ReplyStream(ReplyHeader header, int32_t num_choices, TokenBytes token_bytes);

  // Appends what is due when the stream opens: for chat, a record with the role for each choice;
  // for completions with echo, the prompts' texts. `echo` has one for each prompt, in order, or
  // none; choices go by prompt: with two choices each, the second prompt's are 2 and 3.
  void open(const std::vector<std::string>& echo, std::string& out);

  // Appends what `event` brings to choice `index`: nothing if it has neither text nor
  // log-probabilities nor an end. The end of a choice is a record of its own, with finish_reason.
  // Log-probabilities of tokens whose text is held back go with the next text, or with the end.
  void add(int32_t index, const RequestEvent& event, std::string& out);

  // Appends an error record; then close() without usage.
  void fail(const ApiError& error, std::string& out);

  // Appends usage if it was asked for, and "data: [DONE]\n\n".
  void close(const Usage& usage, std::string& out);

 private:
  void begin_record(int32_t index, std::string& out) const;
  void end_record(int32_t index, std::string_view finish_reason, std::string& out);
  void append_text(int32_t index, std::string_view text, std::string& out);

  const ReplyHeader header_;
  const int32_t num_choices_;
  const TokenBytes token_bytes_;
  const std::string head_;             // of a record, up to its choices
  std::vector<LogprobText> logprobs_;  // by choice: not sent yet; empty if none were asked for
  bool failed_ = false;
};

// A whole reply, collected from events.
class ReplyCollector {
 public:
  ReplyCollector(ReplyHeader header, int32_t num_choices, TokenBytes token_bytes);

  void open(const std::vector<std::string>& echo);
  void add(int32_t index, const RequestEvent& event);
  // The body, once every choice has finished.
  std::string body(const Usage& usage) const;

 private:
  struct Choice {
    std::string text;
    LogprobText logprobs;
    FinishReason finish = FinishReason::kNone;
  };

  void append_choice(int32_t index, std::string& out) const;

  const ReplyHeader header_;
  const TokenBytes token_bytes_;
  std::vector<Choice> choices_;
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
