// Events as an engine makes them, for tests of replies.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/request.h"
#include "openai/reply_writer.h"

namespace encore {

inline RequestEvent text_event(std::string text, FinishReason finish = FinishReason::kNone) {
  RequestEvent event;
  event.token = 7;
  event.text = std::move(text);
  event.finish = finish;
  return event;
}

inline RequestEvent end_event(FinishReason finish) { return text_event({}, finish); }

inline RequestEvent logprob_event(int32_t token, float logprob, std::string text,
                                  std::vector<TokenLogprob> top = {}) {
  RequestEvent event;
  event.token = token;
  event.text = std::move(text);
  event.has_logprob = true;
  event.logprob = logprob;
  event.top_logprobs = std::move(top);
  return event;
}

// The engine has `vocabulary` as tokens 0, 1, ...
inline TokenBytes bytes_of(std::vector<std::string> vocabulary) {
  return [vocabulary = std::move(vocabulary)](int32_t token) { return vocabulary.at(token); };
}

inline ReplyHeader chat_header() {
  return {.is_chat = true, .id = "chatcmpl-1", .created = 1700000000, .model = "smol"};
}

inline ReplyHeader completion_header() {
  return {.is_chat = false, .id = "cmpl-1", .created = 1700000000, .model = "smol"};
}

}  // namespace encore
