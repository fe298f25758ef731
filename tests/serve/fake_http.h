// An HTTP server in memory: requests are function calls, and the test's thread is the server's.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/http_server.h"

namespace encore::fake {

// What a client of the fake server sees.
struct Answer {
  int32_t status = 0;  // 0: nothing yet
  std::string content_type;
  HttpHeaders headers;
  std::string body;  // of a stream, so far
  bool streamed = false;
  bool complete = false;
  int32_t num_answers = 0;  // heads; more than one is a defect

  std::string header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
      if (key == name) return value;
    }
    return {};
  }
};

class FakeExchange : public HttpExchange {
 public:
  FakeExchange(HttpRequest request, std::shared_ptr<Answer> answer)
      : request_(std::move(request)), answer_(std::move(answer)) {}

  const HttpRequest& request() const override { return request_; }
  std::string take_body() override { return std::move(request_.body); }

  void respond(HttpResponse response) override {
    if (!open_) return;
    ++answer_->num_answers;
    answer_->status = response.status;
    answer_->content_type = response.content_type;
    answer_->headers = std::move(response.headers);
    answer_->body = std::move(response.body);
    answer_->complete = true;
    gone_ = nullptr;
  }
  void start_stream(int32_t status, std::string_view content_type, HttpHeaders headers) override {
    if (!open_) return;
    ++answer_->num_answers;
    answer_->status = status;
    answer_->content_type = content_type;
    answer_->headers = std::move(headers);
    answer_->streamed = true;
  }
  void write(std::string_view data) override {
    if (open_) answer_->body += data;
  }
  void finish() override {
    if (open_) answer_->complete = true;
    gone_ = nullptr;
  }

  bool is_open() const override { return open_; }
  void on_gone(std::function<void()> callback) override { gone_ = std::move(callback); }

  // The client closes its end.
  void disconnect() {
    open_ = false;
    if (gone_) std::exchange(gone_, nullptr)();
  }

 private:
  HttpRequest request_;
  std::shared_ptr<Answer> answer_;
  std::function<void()> gone_;
  bool open_ = true;
};

// A client's end of a request.
struct Client {
  std::shared_ptr<Answer> answer;
  std::weak_ptr<FakeExchange> exchange;

  const Answer* operator->() const { return answer.get(); }
  void disconnect() const {
    if (const auto open = exchange.lock()) open->disconnect();
  }
};

class FakeHttp : public HttpServer {
 public:
  std::string host() const override { return "127.0.0.1"; }
  int32_t port() const override { return 1; }
  void start(HttpHandler handler, HttpHeadCheck head_check) override {
    handler_ = std::move(handler);
    head_check_ = std::move(head_check);
  }
  void drain() override {}
  void stop() override {}
  HttpStats stats() const override { return {}; }

  void post(std::function<void()> work) override {
    {
      const std::lock_guard lock(mutex_);
      posted_.push_back(std::move(work));
    }
    wake_.notify_one();
  }

  // Runs what was posted so far; returns whether there was anything.
  bool run_posted() {
    std::deque<std::function<void()>> work;
    {
      const std::lock_guard lock(mutex_);
      work.swap(posted_);
    }
    for (const auto& item : work) item();
    num_run_ += std::ssize(work);
    return !work.empty();
  }

  int64_t num_run() const { return num_run_; }

  // Sleeps until something is posted, and runs it.
  void await_posted() {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return !posted_.empty(); });
    }
    run_posted();
  }

  Client send(std::string method, std::string path, std::string body = {},
              HttpHeaders headers = {}) {
    HttpRequest request;
    request.method = std::move(method);
    request.path = std::move(path);
    request.body = std::move(body);
    request.headers = std::move(headers);
    Client client;
    client.answer = std::make_shared<Answer>();
    auto exchange = std::make_shared<FakeExchange>(std::move(request), client.answer);
    client.exchange = exchange;
    handler_(std::move(exchange));
    return client;
  }
  // What a client is answered whose body has not come; status 0: the body may come.
  HttpResponse send_head(std::string method, std::string path, HttpHeaders headers = {}) {
    HttpRequest head;
    head.method = std::move(method);
    head.path = std::move(path);
    head.headers = std::move(headers);
    return head_check_(head).value_or(HttpResponse{.status = 0});
  }
  Client get(std::string path) { return send("GET", std::move(path)); }
  Client post_json(std::string path, std::string body) {
    return send("POST", std::move(path), std::move(body));
  }

 private:
  HttpHandler handler_;
  HttpHeadCheck head_check_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> posted_;
  int64_t num_run_ = 0;
};

}  // namespace encore::fake
