#include "openai/logprob_text.h"

#include <algorithm>
#include <vector>

#include "openai/json_text.h"
#include "text/utf8.h"

namespace encore {
namespace {

void append_bytes(std::string_view bytes, std::string& out) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out.push_back(',');
    append_json_integer(static_cast<uint8_t>(bytes[i]), out);
  }
}

// "token":..,"logprob":..,"bytes":[..]
void append_chat_token(std::string_view bytes, float logprob, std::string& out) {
  out.append("\"token\":");
  append_json_string(bytes, out);
  out.append(",\"logprob\":");
  append_json_logprob(logprob, out);
  out.append(",\"bytes\":[");
  append_bytes(bytes, out);
  out.push_back(']');
}

// The token's name in completions: its text, or its bytes where these are not whole characters.
std::string completion_token(const std::string& bytes) {
  if (is_valid_utf8(bytes)) return bytes;
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string name = "bytes:";
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    name.append("\\x");
    name.push_back(kDigits[byte >> 4]);
    name.push_back(kDigits[byte & 0xF]);
  }
  return name;
}

bool is_continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

int64_t count_begun(std::string_view bytes) {
  return std::count_if(bytes.begin(), bytes.end(), [](char c) { return !is_continuation(c); });
}

}  // namespace

void LogprobText::add(const RequestEvent& event, const TokenBytes& token_bytes) {
  if (!event.has_logprob || event.token < 0) return;
  const std::string bytes = token_bytes(event.token);
  if (is_chat_) {
    add_chat(event, bytes, token_bytes);
  } else {
    add_completion(event, bytes, token_bytes);
  }
  ++num_tokens_;
}

void LogprobText::add_chat(const RequestEvent& event, const std::string& bytes,
                           const TokenBytes& token_bytes) {
  tokens_.append(num_tokens_ > 0 ? ",{" : "{");
  append_chat_token(bytes, event.logprob, tokens_);
  tokens_.append(",\"top_logprobs\":[");
  const size_t count = std::min(event.top_logprobs.size(), static_cast<size_t>(num_logprobs_));
  for (size_t i = 0; i < count; ++i) {
    tokens_.append(i > 0 ? ",{" : "{");
    append_chat_token(token_bytes(event.top_logprobs[i].token), event.top_logprobs[i].logprob,
                      tokens_);
    tokens_.push_back('}');
  }
  tokens_.append("]}");
}

void LogprobText::add_completion(const RequestEvent& event, const std::string& bytes,
                                 const TokenBytes& token_bytes) {
  if (num_tokens_ > 0) {
    for (std::string* array : {&tokens_, &logprobs_, &top_logprobs_, &offsets_}) {
      array->push_back(',');
    }
  }
  append_json_string(completion_token(bytes), tokens_);
  append_json_logprob(event.logprob, logprobs_);
  append_json_integer(advance(bytes), offsets_);
  add_top_completion(event, bytes, token_bytes);
}

// The most probable tokens by name, and the sampled one if it is not among them. Two tokens may
// have one name, which an object holds once: the more probable one's.
void LogprobText::add_top_completion(const RequestEvent& event, const std::string& bytes,
                                     const TokenBytes& token_bytes) {
  std::vector<std::string> names;
  const size_t count = std::min(event.top_logprobs.size(), static_cast<size_t>(num_logprobs_));
  names.reserve(count + 1);
  const auto put = [&](std::string name, float logprob) {
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    if (!names.empty()) top_logprobs_.push_back(',');
    append_json_string(name, top_logprobs_);
    top_logprobs_.push_back(':');
    append_json_logprob(logprob, top_logprobs_);
    names.push_back(std::move(name));
  };
  top_logprobs_.push_back('{');
  for (size_t i = 0; i < count; ++i) {
    put(completion_token(token_bytes(event.top_logprobs[i].token)), event.top_logprobs[i].logprob);
  }
  put(completion_token(bytes), event.logprob);
  top_logprobs_.push_back('}');
}

// Where the token begins: for one that goes on with a character, where that character does.
int64_t LogprobText::advance(std::string_view bytes) {
  int64_t begin = num_characters_;
  if (!bytes.empty() && is_continuation(bytes.front()) && begin > 0) --begin;
  num_characters_ += count_begun(bytes);
  return begin;
}

void LogprobText::append_to(std::string& out) const {
  if (is_chat_) {
    out.append("{\"content\":[").append(tokens_).append("],\"refusal\":null}");
    return;
  }
  out.append("{\"tokens\":[").append(tokens_);
  out.append("],\"token_logprobs\":[").append(logprobs_);
  if (num_logprobs_ > 0) {
    out.append("],\"top_logprobs\":[").append(top_logprobs_).append("]");
  } else {
    out.append("],\"top_logprobs\":null");
  }
  out.append(",\"text_offset\":[").append(offsets_).append("]}");
}

void LogprobText::clear() {
  num_tokens_ = 0;
  tokens_.clear();
  logprobs_.clear();
  top_logprobs_.clear();
  offsets_.clear();
}

}  // namespace encore
