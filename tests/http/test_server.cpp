#include "test_server.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>
#include <utility>

namespace encore {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

}  // namespace

HttpOptions test_options() {
  HttpOptions options;
  options.error_body = [](int32_t status, std::string_view message) {
    std::string body = std::to_string(status);
    body += ' ';
    body += message;
    return body;
  };
  return options;
}

TestServer::TestServer(HttpOptions options) {
  auto server = HttpServer::bind(std::move(options));
  EXPECT_TRUE(server.ok()) << server.status().message();
  server_ = *std::move(server);
  server_->start([this](const std::shared_ptr<HttpExchange>& exchange) { handle(exchange); });
}

TestServer::~TestServer() { server_->stop(); }

void TestServer::hold(const std::shared_ptr<HttpExchange>& exchange) {
  exchange->on_gone([this] {
    const std::lock_guard lock(mutex_);
    ++gone_;
  });
  const std::lock_guard lock(mutex_);
  held_.push_back(exchange);
  changed_.notify_all();
}

void TestServer::handle(const std::shared_ptr<HttpExchange>& exchange) {
  const HttpRequest& request = exchange->request();
  const std::string path = request.path;
  if (path == "/echo") {
    HttpHeaders headers = {{"X-Method", request.method},
                           {"X-Path", request.path},
                           {"X-Query", request.query},
                           {"X-Id", request.id},
                           {"X-Test", std::string(request.header("x-test"))}};
    exchange->respond({.content_type = "text/plain",
                       .body = exchange->take_body(),
                       .headers = std::move(headers)});
  } else if (path == "/hold") {
    hold(exchange);
  } else if (path == "/stream") {
    exchange->start_stream(200, "text/event-stream", {{"Cache-Control", "no-cache"}});
    hold(exchange);
  } else if (path == "/throw") {
    throw std::runtime_error("a secret");
  } else if (path == "/throw_late") {
    exchange->start_stream(200, "text/plain", {});
    exchange->write("begun");
    throw std::runtime_error("a secret");
  } else if (path.rfind("/big/", 0) == 0) {
    exchange->respond({.body = std::string(std::stoul(path.substr(5)), 'x')});
  } else if (path != "/drop") {
    exchange->respond({.status = 404, .body = "no such path"});
  }
}

HttpAnswer TestServer::ask(std::string_view request) const {
  HttpClient client = connect();
  EXPECT_TRUE(client.send(request));
  return client.read_answer(request.substr(0, 5) == "HEAD ");
}

void TestServer::run(const std::function<void()>& work) {
  std::promise<void> done;
  server_->post([&] {
    work();
    done.set_value();
  });
  ASSERT_EQ(done.get_future().wait_for(kPatience), std::future_status::ready);
}

std::vector<std::shared_ptr<HttpExchange>> TestServer::wait_for_held(size_t count) {
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return held_.size() >= count; }));
  return held_;
}

bool TestServer::wait_for(const std::function<bool(const HttpStats&)>& condition) const {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition(server_->stats())) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

void TestServer::let_go() {
  run([this] {
    std::vector<std::shared_ptr<HttpExchange>> held;
    const std::lock_guard lock(mutex_);
    held.swap(held_);
  });
}

int TestServer::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

}  // namespace encore
