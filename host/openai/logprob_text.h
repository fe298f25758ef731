// Log-probabilities of one choice in OpenAI's two shapes, gathered token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/request.h"

namespace encore {

// The bytes a token stands for, not necessarily whole characters.
using TokenBytes = std::function<std::string(int32_t token)>;

// Chat: {"content":[{"token":..,"logprob":..,"bytes":[..],"top_logprobs":[..]}],"refusal":null}
// Completions: {"tokens":[..],"token_logprobs":[..],"top_logprobs":[..],"text_offset":[..]}
//
// A token that is not whole characters has its malformed bytes replaced in chat, where "bytes" says
// what they are, and is spelled "bytes:\xe2\x80" in completions, as OpenAI does.
class LogprobText {
 public:
  LogprobText(bool is_chat, int32_t num_logprobs)
      : is_chat_(is_chat), num_logprobs_(num_logprobs) {}

  // Takes the event's token, if it has a log-probability.
  void add(const RequestEvent& event, const TokenBytes& token_bytes);

  bool empty() const { return num_tokens_ == 0; }

  // Appends the object.
  void append_to(std::string& out) const;

  // Forgets the tokens, but not how far the text has come. Keeps its memory.
  void clear();

 private:
  void add_chat(const RequestEvent& event, const std::string& bytes, const TokenBytes& token_bytes);
  void add_completion(const RequestEvent& event, const std::string& bytes,
                      const TokenBytes& token_bytes);
  void add_top_completion(const RequestEvent& event, const std::string& bytes,
                          const TokenBytes& token_bytes);
  int64_t advance(std::string_view bytes);

  bool is_chat_;
  int32_t num_logprobs_;
  int64_t num_tokens_ = 0;
  int64_t num_characters_ = 0;  // begun so far
  std::string tokens_;          // elements of each array; chat has this one only
  std::string logprobs_;
  std::string top_logprobs_;
  std::string offsets_;
};

}  // namespace encore
