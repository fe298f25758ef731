#include "http/exchange.h"

#include <utility>

#include "http/session.h"

namespace encore {

SessionExchange::SessionExchange(HttpSession& session, HttpRequest request)
    : session_(&session), request_(std::move(request)) {}

SessionExchange::~SessionExchange() {
  if (session_ != nullptr) session_->abandon();
}

void SessionExchange::respond(HttpResponse response) {
  if (session_ != nullptr) session_->respond(std::move(response));
}

void SessionExchange::start_stream(int32_t status, std::string_view content_type,
                                   HttpHeaders headers) {
  if (session_ != nullptr) session_->start_stream(status, content_type, headers);
}

void SessionExchange::write(std::string_view data) {
  if (session_ != nullptr) session_->write(data);
}

void SessionExchange::finish() {
  if (session_ != nullptr) session_->finish();
}

void SessionExchange::on_gone(std::function<void()> callback) {
  if (gone_) {
    if (callback) callback();
  } else if (session_ != nullptr) {
    on_gone_ = std::move(callback);
  }
}

std::function<void()> SessionExchange::lose_client() {
  session_ = nullptr;
  gone_ = true;
  return std::exchange(on_gone_, nullptr);
}

}  // namespace encore
