#include "bench_serve_dataset.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace encore {
namespace {

using Json = nlohmann::json;

// Depths of the nesting [ { "conversations": [ { ... } ] } ], counting brackets and braces.
constexpr int kEntryDepth = 2;
constexpr int kTurnDepth = 4;

bool is_person(std::string_view from) { return from == "human" || from == "user"; }
bool is_model(std::string_view from) {
  return from == "gpt" || from == "assistant" || from == "chatgpt" || from == "model";
}

// Collects conversations while the file is parsed, without a tree of it and without recursion.
class ConversationReader : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }

  bool string(string_t& text) override {
    if (depth_ != kTurnDepth || !in_conversations_) return true;
    if (key_ == "from" || key_ == "role") {
      from_ = std::move(text);
    } else if (key_ == "value" || key_ == "content") {
      value_ = std::move(text);
    }
    return true;
  }
  bool start_object(size_t) override {
    ++depth_;
    if (depth_ == kEntryDepth) current_ = Conversation();
    if (depth_ == kTurnDepth) {
      from_.clear();
      value_.clear();
    }
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == kEntryDepth) in_conversations_ = name == "conversations" || name == "messages";
    key_ = std::move(name);
    return true;
  }
  bool end_object() override {
    if (depth_ == kTurnDepth && in_conversations_) end_turn();
    if (depth_ == kEntryDepth && !current_.prompt.empty() && !current_.reply.empty()) {
      conversations_.push_back(std::move(current_));
    }
    --depth_;
    return true;
  }
  bool start_array(size_t) override {
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error_position_ = position;
    return false;
  }

  std::vector<Conversation> take() { return std::move(conversations_); }
  size_t error_position() const { return error_position_; }

 private:
  void end_turn() {
    if (current_.prompt.empty()) {
      if (is_person(from_)) current_.prompt = std::move(value_);
    } else if (current_.reply.empty() && is_model(from_)) {
      current_.reply = std::move(value_);
    }
  }

  int depth_ = 0;
  bool in_conversations_ = false;
  std::string key_;
  std::string from_;
  std::string value_;
  Conversation current_;
  std::vector<Conversation> conversations_;
  size_t error_position_ = 0;
};

}  // namespace

Result<std::vector<Conversation>> read_conversations(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) return not_found("cannot read the dataset " + path);
  ConversationReader reader;
  if (!Json::sax_parse(file, &reader)) {
    return data_loss("the dataset " + path + " is no JSON: an error at byte " +
                     std::to_string(reader.error_position()));
  }
  std::vector<Conversation> conversations = reader.take();
  if (!conversations.empty()) return conversations;
  return data_loss("the dataset " + path +
                   " has no conversation in ShareGPT's format: [{\"conversations\": [{\"from\": "
                   "\"human\", \"value\": ...}, {\"from\": \"gpt\", \"value\": ...}]}]");
}

}  // namespace encore
