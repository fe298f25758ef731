#include "openai/reply_parts.h"

#include "openai/json_text.h"

namespace encore {

std::string_view finish_reason_text(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
    case FinishReason::kDeadline:
      return "abort";
    case FinishReason::kNone:
    case FinishReason::kError:
      break;
  }
  return "error";
}

void append_reply_head(const ReplyHeader& header, std::string_view object, std::string& out) {
  out.append("{\"id\":");
  append_json_string(header.id, out);
  out.append(",\"object\":");
  append_json_string(object, out);
  out.append(",\"created\":");
  append_json_integer(header.created, out);
  out.append(",\"model\":");
  append_json_string(header.model, out);
  out.append(",\"choices\":[");
}

void append_usage(const Usage& usage, std::string& out) {
  out.append("{\"prompt_tokens\":");
  append_json_integer(usage.prompt_tokens, out);
  out.append(",\"completion_tokens\":");
  append_json_integer(usage.completion_tokens, out);
  out.append(",\"total_tokens\":");
  append_json_integer(usage.prompt_tokens + usage.completion_tokens, out);
  out.append(",\"prompt_tokens_details\":{\"cached_tokens\":");
  append_json_integer(usage.cached_tokens, out);
  out.append("}}");
}

}  // namespace encore
