// Clients that leave: noticed at once, told once, whatever the moment.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "test_server.h"

namespace encore {
namespace {

bool all_closed(const TestServer& server) {
  return server.wait_for([](const HttpStats& stats) { return stats.connections_open == 0; });
}

// Nothing is written meanwhile: the connection itself is watched.
TEST(HttpClientGoneTest, IsNoticedWhileNothingIsWritten) {
  using Leave = void (*)(HttpClient&);
  const std::array<Leave, 3> ways = {[](HttpClient& client) { client.close(); },
                                     [](HttpClient& client) { client.reset(); },
                                     // Half a close counts as a whole one.
                                     [](HttpClient& client) { client.half_close(); }};
  for (const char* path : {"/hold", "/stream"}) {
    for (const Leave leave : ways) {
      TestServer server;
      HttpClient client = server.connect();
      client.send("GET " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n\r\n");
      const auto held = server.wait_for_held(1);
      leave(client);
      EXPECT_TRUE(all_closed(server)) << path;
      EXPECT_EQ(server.gone(), 1);
      EXPECT_EQ(server.server().stats().clients_gone, 1);
      server.run([&] {
        EXPECT_FALSE(held[0]->is_open());
        held[0]->write("ignored");
        held[0]->respond({});
        bool told = false;
        held[0]->on_gone([&] { told = true; });
        EXPECT_TRUE(told) << "gone already: at once";
      });
    }
  }
}

TEST(HttpClientGoneTest, IsNoticedBehindPipelinedRequests) {
  for (const size_t bytes_ahead : {size_t{100}, size_t{90'000}}) {  // within what is read; beyond
    HttpOptions options = test_options();
    options.idle_timeout_ms = 200;  // the clock that looks for the second case
    TestServer server(options);
    HttpClient client = server.connect();
    client.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
    server.wait_for_held(1);
    client.send("GET /echo HTTP/1.1\r\nHost: x\r\nX: " + std::string(bytes_ahead, 'x'));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(server.gone(), 0);
    client.half_close();
    EXPECT_TRUE(all_closed(server)) << bytes_ahead;
    EXPECT_EQ(server.gone(), 1);
    EXPECT_EQ(server.server().stats().requests, 1);
  }
}

TEST(HttpClientGoneTest, IsNotTheCaseAfterTheAnswer) {
  TestServer server;
  HttpClient client = server.connect();
  client.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto held = server.wait_for_held(1);
  server.run([&] { held[0]->respond({.body = "done"}); });
  EXPECT_EQ(client.read_answer().body, "done");
  client.close();
  EXPECT_TRUE(all_closed(server));
  EXPECT_EQ(server.gone(), 0);
  EXPECT_EQ(server.server().stats().clients_gone, 0);
}

// printf 'GET ...' | nc: the answer is given at once, so the half-close comes too late to matter.
TEST(HttpClientGoneTest, AnswerThatIsCompleteIsSentToAHalfClosedClient) {
  const TestServer server;
  HttpClient client = server.connect();
  client.send("GET /big/20000000 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n"), "HTTP/1.1 200 OK\r\n");
  client.half_close();
  EXPECT_GT(client.read_all().size(), 20'000'000U);
  EXPECT_TRUE(all_closed(server));
}

TEST(HttpClientGoneTest, LeavingInTheMiddleOfARequestIsNobodysLoss) {
  const TestServer server;
  for (const char* part : {"", "GET", "GET / HTTP/1.1\r\nHost",
                           "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\na"}) {
    HttpClient client = server.connect();
    client.send(part);
  }
  EXPECT_TRUE(
      server.wait_for([](const HttpStats& stats) { return stats.connections_accepted == 4; }));
  EXPECT_TRUE(all_closed(server));
  EXPECT_EQ(server.server().stats().requests, 0);
  EXPECT_EQ(server.server().stats().clients_gone, 0);
}

// A server whose exchanges are answered by another thread, step by step, as an engine does it.
class StreamingServer {
 public:
  static constexpr int kPieces = 20;

  StreamingServer() {
    auto server = HttpServer::bind(test_options());
    EXPECT_TRUE(server.ok());
    server_ = *std::move(server);
    server_->start([this](const std::shared_ptr<HttpExchange>& exchange) { begin(exchange); });
  }
  ~StreamingServer() { server_->stop(); }
  StreamingServer(const StreamingServer&) = delete;
  StreamingServer& operator=(const StreamingServer&) = delete;

  HttpServer& server() { return *server_; }

  std::atomic<int> begun = 0;
  std::atomic<int> gone = 0;
  std::atomic<int> finished = 0;
  std::atomic<int> twice = 0;

 private:
  struct Request {
    std::shared_ptr<HttpExchange> exchange;
    int pieces = 0;
    bool gone = false;
  };

  void begin(const std::shared_ptr<HttpExchange>& exchange) {
    ++begun;
    auto request = std::make_shared<Request>();
    request->exchange = exchange;
    exchange->on_gone([this, request] {
      if (std::exchange(request->gone, true)) ++twice;
      ++gone;
      request->exchange = nullptr;
    });
    if (exchange->request().path == "/stream") exchange->start_stream(200, "text/plain", {});
    if (exchange->request().path != "/never") step(request);
  }

  void step(const std::shared_ptr<Request>& request) {
    server_->post([this, request] {
      if (request->gone) return;
      const bool streams = request->exchange->request().path == "/stream";
      if (streams) request->exchange->write("piece ");
      if (++request->pieces < kPieces) return step(request);
      if (streams) {
        request->exchange->finish();
      } else {
        request->exchange->respond({.body = "whole"});
      }
      ++finished;
      request->exchange = nullptr;
    });
  }

  std::unique_ptr<HttpServer> server_;
};

TEST(HttpClientGoneTest, ThousandHardClosesAreToldOnceEach) {
  StreamingServer server;
  constexpr int kRounds = 1000;
  std::mt19937 random(5);
  int sent = 0;
  HttpClient steady(server.server().port());
  for (int round = 0; round < kRounds; ++round) {
    HttpClient client(server.server().port());
    constexpr std::array<std::string_view, 3> kPaths = {"/stream", "/whole", "/never"};
    const std::string_view path = kPaths[random() % 3];
    std::string request = "POST ";
    request += path;
    request += " HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
    const auto moment = random() % 5;
    if (moment == 0) {
      client.send(std::string_view(request).substr(0, random() % request.size()));
    } else {
      client.send(request);
      ++sent;
    }
    if (moment == 2 && path == "/stream") client.read_until("piece ");
    if (moment == 3) client.readable(1);
    if (moment == 4 && path != "/never") {
      EXPECT_TRUE(client.read_answer().whole);
    }
    if (random() % 2 == 0) {
      client.reset();
    } else {
      client.close();
    }
    if (round % 100 == 0) {  // another client, unharmed
      steady.send("GET /whole HTTP/1.1\r\nHost: x\r\n\r\n");
      EXPECT_EQ(steady.read_answer().body, "whole");
      ++sent;
    }
  }
  steady.close();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (server.server().stats().connections_open > 0 &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_EQ(server.server().stats().connections_open, 0);
  EXPECT_EQ(server.twice, 0);
  EXPECT_EQ(server.gone + server.finished, server.begun);
  // Some 200 rounds each can only end this way.
  EXPECT_GT(server.gone, 50);
  EXPECT_GT(server.finished, 50);
  EXPECT_LE(server.begun, sent);  // a reset may overtake its request
}

}  // namespace
}  // namespace encore
