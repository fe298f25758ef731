// A server at a free port of this machine, for one test.
//
// Paths: /echo answers the body, with method, path, query and id in headers; /hold never answers
// and keeps the exchange; /stream starts a stream and keeps it; /drop does nothing; /throw throws;
// /throw_late throws within a stream; /big/N answers N bytes; anything else is 404.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "http/http_server.h"
#include "http_client.h"

namespace encore {

// Errors of the server itself: "STATUS MESSAGE" as text.
HttpOptions test_options();

class TestServer {
 public:
  explicit TestServer(HttpOptions options = test_options());
  ~TestServer();
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  HttpServer& server() const { return *server_; }
  int32_t port() const { return server_->port(); }
  HttpClient connect(int receive_buffer_bytes = 0) const {
    return HttpClient(port(), receive_buffer_bytes);
  }
  // One connection, one request, its answer.
  HttpAnswer ask(std::string_view request) const;

  // Runs `work` on the server's thread and waits for it.
  void run(const std::function<void()>& work);
  // Waits until so many exchanges are held (of /hold and /stream), all told; the latest is last.
  std::vector<std::shared_ptr<HttpExchange>> wait_for_held(size_t count);
  // Waits until `condition` holds of the statistics; false after 10 s.
  bool wait_for(const std::function<bool(const HttpStats&)>& condition) const;
  // Lets go of all exchanges, on the server's thread.
  void let_go();

  int gone() const;  // calls of on_gone, of all held exchanges

 private:
  void handle(const std::shared_ptr<HttpExchange>& exchange);
  void hold(const std::shared_ptr<HttpExchange>& exchange);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<HttpExchange>> held_;
  int gone_ = 0;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace encore
