// One request and the way back to the session that answers it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "http/http_server.h"

namespace encore {

class HttpSession;

// Session and exchange point at each other until one of them is done: the answer is complete, the
// client is gone, the exchange is dropped, or the server stops. The server's thread only; once it
// is cut loose, any one thread.
class SessionExchange final : public HttpExchange {
 public:
  SessionExchange(HttpSession& session, HttpRequest request);
  ~SessionExchange() override;
  SessionExchange(const SessionExchange&) = delete;
  SessionExchange& operator=(const SessionExchange&) = delete;

  const HttpRequest& request() const override { return request_; }
  std::string take_body() override { return std::move(request_.body); }
  void respond(HttpResponse response) override;
  void start_stream(int32_t status, std::string_view content_type, HttpHeaders headers) override;
  void write(std::string_view data) override;
  void finish() override;
  bool is_open() const override { return session_ != nullptr; }
  void on_gone(std::function<void()> callback) override;

  // By the session. Afterwards everything but request() is a no-op.
  void cut_loose() { session_ = nullptr; }
  // Cuts loose and returns what is to be called then, or an empty function.
  std::function<void()> lose_client();

 private:
  HttpSession* session_;
  HttpRequest request_;
  std::function<void()> on_gone_;
  bool gone_ = false;
};

}  // namespace encore
