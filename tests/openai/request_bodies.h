// Bodies for tests, and the limits they are read under.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "openai/generation_request.h"

namespace encore {

inline ApiLimits small_limits() {
  ApiLimits limits;
  limits.vocab_size = 512;
  limits.max_logprobs = 5;
  limits.max_choices = 8;
  limits.max_prompts = 4;
  limits.max_stop_strings = 4;
  limits.max_stop_bytes = 10;
  return limits;
}

// A chat request with `fields` ("\"n\":2") added.
inline std::string chat_body(std::string_view fields) {
  std::string body = R"({"messages":[{"role":"user","content":"hi"}])";
  if (!fields.empty()) body.append(",").append(fields);
  return body + "}";
}

inline std::string completion_body(std::string_view fields) {
  std::string body = R"({"prompt":"hi")";
  if (!fields.empty()) body.append(",").append(fields);
  return body + "}";
}

// The error's message, or "ok".
inline std::string message_of(const std::optional<ApiError>& error) {
  return error ? error->message : "ok";
}

// One after another. GCC 12 warns of "a" + std::string.
inline std::string join(std::initializer_list<std::string_view> parts) {
  std::string out;
  for (const std::string_view part : parts) out.append(part);
  return out;
}

inline std::string repeat(std::string_view text, size_t times) {
  std::string out;
  out.reserve(text.size() * times);
  for (size_t i = 0; i < times; ++i) out.append(text);
  return out;
}

}  // namespace encore
