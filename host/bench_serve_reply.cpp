#include "bench_serve_reply.h"

#include <nlohmann/json.hpp>

namespace encore {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxErrorBytes = size_t{64} << 10;

const Json* member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// The message of {"error": {"message": ...}}, or of the shapes that other servers have.
std::string error_message(const Json& json) {
  const Json* error = member(json, "error");
  if (error == nullptr) error = member(json, "detail");
  if (error == nullptr) error = &json;
  const Json* message = error->is_object() ? member(*error, "message") : error;
  return message != nullptr && message->is_string() ? message->get<std::string>() : json.dump();
}

int64_t count_in(const Json& usage, const char* name) {
  const Json* count = member(usage, name);
  return count != nullptr && count->is_number_integer() ? count->get<int64_t>() : 0;
}

bool has_text(const Json& choice) {
  const auto filled = [](const Json* text) {
    return text != nullptr && text->is_string() && !text->get_ref<const std::string&>().empty();
  };
  if (filled(member(choice, "text"))) return true;
  const Json* delta = member(choice, "delta");
  if (delta == nullptr) return false;
  for (const char* name : {"content", "reasoning_content", "reasoning"}) {
    if (filled(member(*delta, name))) return true;
  }
  return false;
}

}  // namespace

void StreamedReply::feed(std::string_view bytes, double now_s) {
  if (record_.http_status != 200) {
    if (body_.size() < kMaxErrorBytes) body_.append(bytes.substr(0, kMaxErrorBytes));
    return;
  }
  const Status status =
      events_.feed(bytes, [&](std::string_view data) { read_event(data, now_s); });
  if (!status.ok() && record_.error.empty()) record_.error = status.message();
}

void StreamedReply::read_event(std::string_view data, double now_s) {
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  const Json json = Json::parse(data, nullptr, false);
  if (json.is_discarded()) {
    if (record_.error.empty()) record_.error = "an event that is not JSON";
    return;
  }
  if (member(json, "error") != nullptr) {
    if (record_.error.empty()) record_.error = error_message(json);
    return;
  }
  const Json* choices = member(json, "choices");
  if (choices != nullptr && choices->is_array() && !choices->empty() &&
      has_text(choices->front())) {
    count_text(now_s);
  }
  const Json* usage = member(json, "usage");
  if (usage != nullptr) {
    record_.usage_reported = true;
    record_.prompt_tokens = count_in(*usage, "prompt_tokens");
    record_.output_tokens = count_in(*usage, "completion_tokens");
  }
}

void StreamedReply::count_text(double now_s) {
  if (text_records_ == 0) {
    record_.first_token_s = now_s;
  } else {
    record_.gaps_s.push_back(now_s - record_.last_token_s);
  }
  record_.last_token_s = now_s;
  ++text_records_;
}

LoadRecord StreamedReply::finish(double now_s, const std::string& broken) {
  record_.end_s = now_s;
  if (!record_.usage_reported) record_.output_tokens = text_records_;
  if (record_.error.empty()) record_.error = broken;
  if (record_.error.empty() && record_.http_status != 200) {
    const Json json = Json::parse(body_, nullptr, false);
    record_.error = json.is_discarded() ? body_.substr(0, 200) : error_message(json);
    if (record_.error.empty()) record_.error = "an empty answer";
  } else if (record_.error.empty() && !done_) {
    record_.error = "the stream ended without [DONE]";
  } else if (record_.error.empty() && text_records_ == 0 && record_.output_tokens == 0) {
    record_.error = "the reply has no token";
  }
  record_.ok = record_.error.empty();
  return std::move(record_);
}

}  // namespace encore
