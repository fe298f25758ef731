#include <cassert>
#include <utility>

#include "openai/json_text.h"
#include "openai/reply_writer.h"

namespace encore {
namespace {

std::string record_head(const ReplyHeader& header) {
  std::string head = "data: ";
  append_reply_head(header, header.is_chat ? "chat.completion.chunk" : "text_completion", head);
  return head;
}

}  // namespace

ReplyStream::ReplyStream(ReplyHeader header, int32_t num_choices, TokenBytes token_bytes)
    : header_(std::move(header)),
      num_choices_(num_choices),
      token_bytes_(std::move(token_bytes)),
      head_(record_head(header_)) {
  if (header_.num_logprobs >= 0) {
    logprobs_.assign(num_choices, LogprobText(header_.is_chat, header_.num_logprobs));
  }
}

// A record up to the text of its choice, whose string the caller writes and closes.
void ReplyStream::begin_record(int32_t index, std::string& out) const {
  out.append(head_);
  if (header_.is_chat) {
    out.append("{\"index\":");
    append_json_integer(index, out);
    out.append(",\"delta\":{");
  } else {
    out.append("{\"text\":\"");
  }
}

// The rest of a record, after the text.
void ReplyStream::end_record(int32_t index, std::string_view finish_reason, std::string& out) {
  if (header_.is_chat) {
    out.append("},\"logprobs\":");
  } else {
    out.append("\",\"index\":");
    append_json_integer(index, out);
    out.append(",\"logprobs\":");
  }
  if (logprobs_.empty() || logprobs_[index].empty()) {
    out.append("null");
  } else {
    logprobs_[index].append_to(out);
    logprobs_[index].clear();
  }
  if (finish_reason.empty()) {
    out.append(",\"finish_reason\":null}]");
  } else {
    out.append(",\"finish_reason\":\"").append(finish_reason).append("\"}]");
  }
  out.append(header_.include_usage ? ",\"usage\":null}\n\n" : "}\n\n");
}

void ReplyStream::append_text(int32_t index, std::string_view text, std::string& out) {
  if (text.empty()) return;
  begin_record(index, out);
  if (header_.is_chat) out.append("\"content\":\"");
  append_json_text(text, out);
  if (header_.is_chat) out.push_back('"');
  end_record(index, {}, out);
}

void ReplyStream::open(const std::vector<std::string>& echo, std::string& out) {
  assert(echo.empty() || num_choices_ % static_cast<int32_t>(echo.size()) == 0);
  for (int32_t i = 0; i < num_choices_; ++i) {
    if (header_.is_chat) {
      begin_record(i, out);
      out.append("\"role\":\"assistant\",\"content\":\"\"");
      end_record(i, {}, out);
    } else if (!echo.empty()) {
      append_text(i, echo[i / (num_choices_ / static_cast<int32_t>(echo.size()))], out);
    }
  }
}

void ReplyStream::add(int32_t index, const RequestEvent& event, std::string& out) {
  assert(index >= 0 && index < num_choices_);
  if (!logprobs_.empty()) logprobs_[index].add(event, token_bytes_);
  append_text(index, event.text, out);
  if (event.finished()) {
    begin_record(index, out);
    end_record(index, finish_reason_text(event.finish), out);
  }
}

void ReplyStream::fail(const ApiError& error, std::string& out) {
  failed_ = true;
  out.append("data: ").append(to_json(error)).append("\n\n");
}

void ReplyStream::close(const Usage& usage, std::string& out) {
  if (header_.include_usage && !failed_) {
    out.append(head_).append("],\"usage\":");
    append_usage(usage, out);
    out.append("}\n\n");
  }
  out.append("data: [DONE]\n\n");
}

}  // namespace encore
