#include <cassert>
#include <utility>

#include "openai/json_text.h"
#include "openai/reply_writer.h"

namespace encore {

ReplyCollector::ReplyCollector(ReplyHeader header, int32_t num_choices, TokenBytes token_bytes)
    : header_(std::move(header)), token_bytes_(std::move(token_bytes)) {
  choices_.assign(num_choices,
                  {.text = {}, .logprobs = LogprobText(header_.is_chat, header_.num_logprobs)});
}

void ReplyCollector::open(const std::vector<std::string>& echo) {
  if (header_.is_chat || echo.empty()) return;
  assert(choices_.size() % echo.size() == 0);
  const size_t choices_per_prompt = choices_.size() / echo.size();
  for (size_t i = 0; i < choices_.size(); ++i) {
    choices_[i].text = echo[i / choices_per_prompt];
  }
}

void ReplyCollector::add(int32_t index, const RequestEvent& event) {
  assert(index >= 0 && static_cast<size_t>(index) < choices_.size());
  Choice& choice = choices_[index];
  choice.text.append(event.text);
  if (header_.num_logprobs >= 0) choice.logprobs.add(event, token_bytes_);
  if (event.finished()) choice.finish = event.finish;
}

void ReplyCollector::append_choice(int32_t index, std::string& out) const {
  const Choice& choice = choices_[index];
  if (header_.is_chat) {
    out.append("{\"index\":");
    append_json_integer(index, out);
    out.append(",\"message\":{\"role\":\"assistant\",\"content\":");
    append_json_string(choice.text, out);
    out.append(",\"refusal\":null}");
  } else {
    out.append("{\"text\":");
    append_json_string(choice.text, out);
    out.append(",\"index\":");
    append_json_integer(index, out);
  }
  out.append(",\"logprobs\":");
  if (header_.num_logprobs >= 0) {
    choice.logprobs.append_to(out);
  } else {
    out.append("null");
  }
  out.append(",\"finish_reason\":\"").append(finish_reason_text(choice.finish)).append("\"}");
}

std::string ReplyCollector::body(const Usage& usage) const {
  std::string out;
  append_reply_head(header_, header_.is_chat ? "chat.completion" : "text_completion", out);
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (i > 0) out.push_back(',');
    append_choice(static_cast<int32_t>(i), out);
  }
  out.append("],\"usage\":");
  append_usage(usage, out);
  out.push_back('}');
  return out;
}

}  // namespace encore
