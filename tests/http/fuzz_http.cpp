// Any bytes as what clients send on one connection, without the connection: the session is given
// them in pieces, its handler answers in all the ways there are, time passes, and the client takes
// as much as it likes. The first bytes of the input choose the pieces.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/session.h"

namespace {

constexpr int64_t kMaxHeaderBytes = 512;
constexpr int64_t kMaxBodyBytes = 256;
constexpr int64_t kMaxUnreadBytes = 4096;

void require(bool condition) {
  if (!condition) std::abort();
}

class Conversation {
 public:
  Conversation();
  void run(std::string_view choices, std::string_view bytes);

 private:
  void handle(const std::shared_ptr<encore::HttpExchange>& exchange);
  void take_output(uint8_t choice);
  void act(uint8_t choice);
  void check_answers() const;

  encore::HttpContext& context_;
  std::vector<std::shared_ptr<encore::HttpExchange>> held_;
  std::string received_;
  int64_t now_ms_ = 1000;
  int gone_ = 0;
  std::unique_ptr<encore::HttpSession> session_;
};

// One for all runs: seeding its ids takes longer than a run.
encore::HttpContext& shared_context() {
  static encore::HttpContext context;
  return context;
}

Conversation::Conversation() : context_(shared_context()) {
  context_.draining = false;
  context_.options.max_header_bytes = kMaxHeaderBytes;
  context_.options.max_body_bytes = kMaxBodyBytes;
  context_.options.max_unread_bytes = kMaxUnreadBytes;
  context_.options.idle_timeout_ms = 1000;
  context_.head_check = [](const encore::HttpRequest& head) -> std::optional<encore::HttpResponse> {
    if (head.path.size() < 2 || head.path[1] != 'e') return {};
    return encore::HttpResponse{.status = 401, .body = "early"};
  };
  context_.handler = [this](const auto& exchange) { handle(exchange); };
  session_ = std::make_unique<encore::HttpSession>(
      context_, [] {}, now_ms_);
}

void Conversation::handle(const std::shared_ptr<encore::HttpExchange>& exchange) {
  const encore::HttpRequest& request = exchange->request();
  require(!request.method.empty());
  require(request.path == "*" || request.path.front() == '/');
  require(request.path.find('?') == std::string::npos);
  require(static_cast<int64_t>(request.body.size()) <= kMaxBodyBytes);
  require(!request.id.empty() && request.id.size() <= 128);
  int64_t header_bytes = 0;
  for (const auto& [name, value] : request.headers) {
    require(!name.empty());
    for (const char c : name + value) require(c != '\r' && c != '\n' && c != '\0');
    header_bytes += static_cast<int64_t>(name.size() + value.size());
  }
  require(header_bytes <= kMaxHeaderBytes);
  require(context_.counters.requests.load() > 0);

  const char way = request.path.size() > 1 ? request.path[1] : 'r';
  if (way == 'd') return;
  if (way == 't') throw std::runtime_error("thrown");
  if (way == 'h' || way == 's') {
    exchange->on_gone([this] { ++gone_; });
    if (way == 's') exchange->start_stream(200, "text/plain", {{"X-Echo", request.id}});
    held_.push_back(exchange);
    return;
  }
  exchange->respond({.status = way == 'n' ? 204 : 200, .body = exchange->take_body()});
}

void Conversation::take_output(uint8_t choice) {
  do {
    for (int round = 0; round < 1 + choice % 4; ++round) {
      size_t size = 0;
      for (const std::string_view part : session_->output()) {
        received_ += part;
        size += part.size();
      }
      if (size == 0) break;
      // Not all of it, now and then.
      const size_t left = choice % 3 == 0 ? size / 2 : 0;
      received_.resize(received_.size() - left);
      session_->sent(size - left, now_ms_);
    }
    session_->check_unread();
  } while (session_->advance(now_ms_));
}

void Conversation::act(uint8_t choice) {
  switch (choice % 16) {
    case 0:
      now_ms_ += 400;
      return session_->check_time(now_ms_);
    case 1:
      session_->receive_end();
      return;
    case 2:
      session_->connection_failed();
      return;
    case 3:
      context_.draining = true;
      return session_->drain();
    case 4:
      held_.clear();
      return;
    case 5:
    case 6:
    case 7:
      if (held_.empty()) return;
      if (held_.back()->request().path[1] == 's') {
        held_.back()->write(std::string(choice, 'w'));
        if (choice % 16 == 5) held_.back()->finish();
      } else if (held_.back()->is_open()) {
        held_.back()->respond({.body = "late"});
      }
      return;
    default:
      return;
  }
}

void Conversation::check_answers() const {
  if (received_.empty()) return;
  require(received_.substr(0, std::min<size_t>(9, received_.size())) ==
          std::string_view("HTTP/1.1 ").substr(0, received_.size()));
  require(gone_ <= 1);  // after it there is no connection for a second one
}

void Conversation::run(std::string_view choices, std::string_view bytes) {
  size_t at = 0;
  for (size_t i = 0; at < bytes.size() || i < choices.size(); ++i) {
    const auto choice = static_cast<uint8_t>(choices.empty() ? 255 : choices[i % choices.size()]);
    if (session_->wants_input()) {
      const size_t size = choices.empty() ? bytes.size() : size_t{choice} / 4 + 1;
      const std::string piece(bytes.substr(at, size));  // a copy: its end is guarded
      at += piece.size();
      session_->receive(piece, now_ms_);
    } else {
      held_.clear();  // or nothing would ever go on
    }
    take_output(choice);
    act(choice);
    take_output(choice);
    if (session_->phase() == encore::HttpSession::Phase::kClosed) break;
  }
  check_answers();
  require(context_.body_bytes_receiving >= 0 && context_.body_bytes_receiving <= kMaxBodyBytes);
  if (at % 2 == 0) session_ = nullptr;  // either may go first
  held_.clear();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  // "CHOICES\n" and the bytes; without a short first line everything is bytes, in one piece.
  const size_t end = input.substr(0, 33).find('\n');
  Conversation conversation;
  if (end == std::string_view::npos || (end > 0 && input[end - 1] == '\r')) {
    conversation.run({}, input);
  } else {
    conversation.run(input.substr(0, end), input.substr(end + 1));
  }
  return 0;
}
