// Many connections, too many connections, and the end of all.
#include <gtest/gtest.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "http/open_files.h"
#include "test_server.h"

namespace encore {
namespace {

constexpr const char* kGetEcho = "GET /echo HTTP/1.1\r\nHost: x\r\n\r\n";

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  statm >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// What is logged meanwhile.
class CapturedLog {
 public:
  CapturedLog() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", lines_));
  }
  ~CapturedLog() { spdlog::set_default_logger(before_); }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  int64_t count(const std::string& text) const {
    const std::vector<std::string> lines = lines_->last_formatted();
    return std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.find(text) != std::string::npos;
    });
  }

 private:
  std::shared_ptr<spdlog::logger> before_;
  std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> lines_ =
      std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(16);
};

TEST(HttpConnectionsTest, TwoThousandIdleStreamsAtOnce) {
  constexpr size_t kStreams = 2000;
  TestServer server;
  std::vector<HttpClient> clients;
  clients.reserve(kStreams);
  const int64_t before = resident_bytes();
  for (size_t i = 0; i < kStreams; ++i) {
    clients.push_back(server.connect());
    clients.back().send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  const auto held = server.wait_for_held(kStreams);
  ASSERT_EQ(held.size(), kStreams);
  EXPECT_EQ(server.server().stats().connections_open, static_cast<int64_t>(kStreams));
  const int64_t bytes = (resident_bytes() - before) / static_cast<int64_t>(kStreams);
  RecordProperty("resident_bytes_per_stream", std::to_string(bytes));
  std::printf("%lld resident bytes a stream, client included\n", static_cast<long long>(bytes));
  EXPECT_LT(bytes, 16 << 10);
  EXPECT_EQ(server.ask(kGetEcho).status_line, "HTTP/1.1 200 OK");
  server.run([&] {
    for (const auto& exchange : held) {
      exchange->write("x");
      exchange->finish();
    }
  });
  for (HttpClient& client : clients) {
    const HttpAnswer answer = client.read_answer();
    ASSERT_TRUE(answer.whole);
    ASSERT_EQ(answer.body, "x");
  }
  EXPECT_EQ(server.gone(), 0);
}

TEST(HttpConnectionsTest, OneTooManyIsTold503) {
  HttpOptions options = test_options();
  options.max_connections = 2;
  const TestServer server(options);
  HttpClient first = server.connect();
  HttpClient second = server.connect();
  first.send(kGetEcho);
  EXPECT_EQ(first.read_answer().status_line, "HTTP/1.1 200 OK");
  second.send(kGetEcho);
  EXPECT_EQ(second.read_answer().status_line, "HTTP/1.1 200 OK");
  HttpClient third = server.connect();
  third.send(kGetEcho);
  const HttpAnswer answer = third.read_answer();
  EXPECT_EQ(answer.status_line, "HTTP/1.1 503 Service Unavailable");
  EXPECT_EQ(answer.body, "503 the server has its limit of 2 connections; try again later");
  EXPECT_EQ(answer.headers.at("retry-after"), "1");
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_EQ(answer.headers.at("x-request-id").size(), 32U);
  EXPECT_TRUE(third.closed_by_server());
  EXPECT_EQ(server.server().stats().connections_refused, 1);
  EXPECT_EQ(server.server().stats().connections_accepted, 2);
  EXPECT_EQ(server.server().stats().connections_open, 2);

  first.close();
  EXPECT_TRUE(server.wait_for([](const HttpStats& stats) { return stats.connections_open == 1; }));
  EXPECT_EQ(server.ask(kGetEcho).status_line, "HTTP/1.1 200 OK");
}

TEST(HttpConnectionsTest, FloodBeyondTheLimitLeavesTheServedAlone) {
  HttpOptions options = test_options();
  options.max_connections = 1;
  const TestServer server(options);
  HttpClient served = server.connect();
  served.send(kGetEcho);
  EXPECT_EQ(served.read_answer().status_line, "HTTP/1.1 200 OK");
  std::vector<HttpClient> flood;
  flood.reserve(300);
  for (int i = 0; i < 300; ++i) flood.push_back(server.connect());
  EXPECT_TRUE(
      server.wait_for([](const HttpStats& stats) { return stats.connections_refused == 300; }));
  for (HttpClient& client : flood) client.read_all();  // each is closed, told or not
  served.send(kGetEcho);
  EXPECT_EQ(served.read_answer().status_line, "HTTP/1.1 200 OK");
}

// Descriptors used up: connections wait, and are served as soon as there are some again.
TEST(HttpConnectionsTest, ServerSurvivesRunningOutOfDescriptors) {
#if defined(__SANITIZE_ADDRESS__)
  // UndefinedBehaviorSanitizer, its companion, looks at the logger's type through a pipe.
  GTEST_SKIP() << "the sanitizer needs descriptors of its own";
#endif
  const CapturedLog log;
  const TestServer server;
  EXPECT_EQ(server.ask(kGetEcho).status_line, "HTTP/1.1 200 OK");
  EXPECT_TRUE(server.wait_for([](const HttpStats& stats) { return stats.connections_open == 0; }));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  // The client's own is the last that there is: dup() finds the lowest that is free.
  const int next = dup(0);
  ASSERT_GE(next, 0);
  close(next);
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(next) + 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  HttpClient client = server.connect();
  client.send(kGetEcho);
  EXPECT_FALSE(client.readable(300));
  EXPECT_GE(server.server().stats().accept_errors, 2);  // one every 100 ms
  EXPECT_EQ(log.count("cannot accept connections: Too many open files; "), 1);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(client.read_answer().status_line, "HTTP/1.1 200 OK");
}

TEST(HttpConnectionsTest, LimitOfOpenFilesIsRaisedAsFarAsItMayBe) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 400;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  HttpOptions options = test_options();
  options.max_connections = 144;  // with 256 more: just enough
  EXPECT_TRUE(HttpServer::bind(options).ok());
  rlimit after{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, 400U);
  options.max_connections = 145;
  EXPECT_TRUE(HttpServer::bind(options).ok());
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(HttpConnectionsTest, WhatDoesNotFitIntoTheOpenFilesIsLeftOut) {
  const auto expect_room = [](int32_t wanted, int64_t open_files, int32_t connections,
                              int32_t refused_at_once) {
    const ConnectionRoom room = connection_room(wanted, open_files);
    EXPECT_EQ(room.connections, connections) << wanted << " of " << open_files;
    EXPECT_EQ(room.refused_at_once, refused_at_once) << wanted << " of " << open_files;
  };
  expect_room(4096, 4352, 4096, 64);
  expect_room(4096, 4351, 4095, 64);
  expect_room(4096, 1024, 768, 64);
  expect_room(4096, 512, 256, 64);
  expect_room(4096, 64, 32, 8);
  expect_room(10, 64, 10, 8);
  expect_room(4096, 1, 1, 0);
  expect_room(1'000'000, INT64_MAX, 1'000'000, 64);
}

TEST(HttpConnectionsTest, PostedWorkRunsInOrderOnOneThread) {
  TestServer server;
  std::vector<int> order;
  std::atomic<int> strangers = 0;
  std::thread::id home;
  server.run([&] { home = std::this_thread::get_id(); });
  for (int i = 0; i < 1000; ++i) {
    server.server().post([&, i] {
      order.push_back(i);
      if (std::this_thread::get_id() != home) ++strangers;
    });
  }
  server.run([] {});
  ASSERT_EQ(order.size(), 1000U);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i);
  EXPECT_EQ(strangers, 0);
}

TEST(HttpConnectionsTest, WorkPostedBeforeStartRunsAfterIt) {
  auto server = HttpServer::bind(test_options());
  ASSERT_TRUE(server.ok());
  std::atomic<bool> ran = false;
  (*server)->post([&] { ran = true; });
  EXPECT_FALSE(ran);
  (*server)->start([](const std::shared_ptr<HttpExchange>&) {});
  for (int i = 0; i < 2000 && !ran; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(ran);
}

TEST(HttpDrainTest, NewAndIdleConnectionsGoAndTheOthersFinish) {
  TestServer server;
  HttpClient idle = server.connect();
  idle.send(kGetEcho);
  EXPECT_EQ(idle.read_answer().status_line, "HTTP/1.1 200 OK");
  HttpClient streaming = server.connect();
  streaming.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n" + std::string(kGetEcho));
  HttpClient waiting = server.connect();
  waiting.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto held = server.wait_for_held(2);
  HttpClient sending = server.connect();
  sending.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbo");
  EXPECT_TRUE(server.wait_for([](const HttpStats& stats) { return stats.connections_open == 4; }));
  const int32_t port = server.port();

  server.server().drain();
  EXPECT_TRUE(idle.closed_by_server());
  auto taken = HttpServer::bind({.port = port, .error_body = {}});
  EXPECT_TRUE(taken.ok()) << "the port is free: nobody else is refused in our name";

  sending.send("dy");
  const HttpAnswer sent = sending.read_answer();
  EXPECT_EQ(sent.body, "body");
  EXPECT_EQ(sent.headers.at("connection"), "close");
  EXPECT_TRUE(sending.closed_by_server());

  server.run([&] {
    for (const auto& exchange : held) {
      if (exchange->request().path == "/hold") {
        exchange->respond({.body = "late"});
      } else {
        exchange->write("last");
        exchange->finish();
      }
    }
  });
  const HttpAnswer late = waiting.read_answer();
  EXPECT_EQ(late.body, "late");
  EXPECT_EQ(late.headers.at("connection"), "close");
  EXPECT_EQ(streaming.read_answer().body, "last");
  EXPECT_TRUE(streaming.closed_by_server());  // the request that was sent ahead is not taken
  streaming.close();
  waiting.close();
  sending.close();
  EXPECT_TRUE(server.wait_for([](const HttpStats& stats) { return stats.connections_open == 0; }));
  EXPECT_EQ(server.gone(), 0);
}

TEST(HttpStopTest, ExchangesOutliveTheServer) {
  std::shared_ptr<HttpExchange> held;
  std::shared_ptr<HttpExchange> streaming;
  bool told = false;
  auto alive = std::make_shared<int>(1);
  {
    TestServer server;
    HttpClient first = server.connect();
    first.send("GET /hold?a HTTP/1.1\r\nHost: x\r\n\r\n");
    held = server.wait_for_held(1)[0];
    HttpClient second = server.connect();
    second.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    streaming = server.wait_for_held(2)[1];
    server.server().stop();
    EXPECT_TRUE(first.closed_by_server());
    EXPECT_FALSE(second.read_answer().whole);
    EXPECT_EQ(server.server().stats().connections_open, 0);
    EXPECT_EQ(server.gone(), 0);
    server.server().post([&told, alive] { told = true; });
    EXPECT_EQ(alive.use_count(), 1) << "what is not run is let go of";
    server.server().stop();
    server.server().drain();
  }
  EXPECT_FALSE(held->is_open());
  EXPECT_EQ(held->request().query, "a");
  held->on_gone([&told] { told = true; });
  held->respond({.body = "nobody reads this"});
  streaming->write("nor this");
  streaming->finish();
  EXPECT_FALSE(told);
}

TEST(HttpStopTest, StopWithoutStart) {
  auto server = HttpServer::bind(test_options());
  ASSERT_TRUE(server.ok());
  (*server)->stop();
}

TEST(HttpStopTest, StopUnderLoad) {
  for (int round = 0; round < 20; ++round) {
    auto server = std::make_unique<TestServer>();
    const int32_t port = server->port();
    std::vector<HttpClient> clients;
    clients.reserve(8);
    for (int i = 0; i < 8; ++i) clients.emplace_back(port);
    std::atomic<bool> done = false;
    std::thread load([&] {
      while (!done) {
        for (HttpClient& client : clients) {
          client.send(kGetEcho);
          client.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
        }
        server->server().post([] {});
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(round));
    server->server().stop();
    done = true;
    load.join();
  }
}

}  // namespace
}  // namespace encore
