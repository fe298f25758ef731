// Answers whose length is not known: framing, coalescing, clients that do not read.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "test_server.h"

namespace encore {
namespace {

constexpr const char* kGetStream = "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n";

TEST(HttpStreamTest, HeadLeavesBeforeAnythingIsWritten) {
  TestServer server;
  HttpClient client = server.connect();
  client.send(kGetStream);
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_EQ(head.substr(0, 17), "HTTP/1.1 200 OK\r\n");
  EXPECT_NE(head.find("\r\nContent-Type: text/event-stream\r\n"), std::string::npos);
  EXPECT_NE(head.find("\r\nCache-Control: no-cache\r\n"), std::string::npos);
  EXPECT_NE(head.find("\r\nTransfer-Encoding: chunked\r\n"), std::string::npos);
  EXPECT_EQ(head.find("Content-Length"), std::string::npos);
}

TEST(HttpStreamTest, WritesOfOneTurnAreOneChunk) {
  TestServer server;
  HttpClient client = server.connect();
  client.send(kGetStream);
  const auto held = server.wait_for_held(1);
  client.read_until("\r\n\r\n");
  server.run([&] {
    held[0]->write("data: a\n\n");
    held[0]->write("");
    held[0]->write("data: b\n\n");
  });
  EXPECT_EQ(client.read_bytes(24), "12\r\ndata: a\n\ndata: b\n\n\r\n");
  server.run([&] {
    held[0]->write("data: [DONE]\n\n");
    held[0]->finish();
  });
  EXPECT_EQ(client.read_bytes(23), "e\r\ndata: [DONE]\n\n\r\n0\r\n\r");
  EXPECT_EQ(client.read_bytes(1), "\n");
  // And the connection goes on.
  client.send("GET /echo?next HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.read_answer().headers.at("x-query"), "next");
  EXPECT_EQ(server.gone(), 0);
}

TEST(HttpStreamTest, StreamThatIsWrittenWithinTheHandlerIsWhole) {
  HttpOptions options = test_options();
  auto server = HttpServer::bind(options);
  ASSERT_TRUE(server.ok());
  (*server)->start([](const std::shared_ptr<HttpExchange>& exchange) {
    exchange->start_stream(200, "text/plain", {});
    exchange->write("all");
    exchange->finish();
    EXPECT_FALSE(exchange->is_open());
    exchange->write("ignored");
  });
  HttpClient client((*server)->port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.read_answer().body, "all");
}

TEST(HttpStreamTest, Http10StreamEndsWithItsConnection) {
  TestServer server;
  HttpClient client = server.connect();
  client.send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const auto held = server.wait_for_held(1);
  server.run([&] {
    held[0]->write("data: a\n\n");
    held[0]->write("data: b\n\n");
    held[0]->finish();
  });
  const std::string all = client.read_all();
  EXPECT_NE(all.find("\r\nConnection: close\r\n"), std::string::npos);
  EXPECT_EQ(all.find("Transfer-Encoding"), std::string::npos);
  EXPECT_EQ(all.substr(all.find("\r\n\r\n")), "\r\n\r\ndata: a\n\ndata: b\n\n");
}

TEST(HttpStreamTest, DroppedStreamIsNotTakenForAWholeOne) {
  TestServer server;
  HttpClient client = server.connect();
  client.send(kGetStream);
  server.wait_for_held(1);
  server.let_go();
  EXPECT_FALSE(client.read_answer().whole);
  EXPECT_EQ(server.gone(), 0);
}

// Without chunks an orderly end would make it look whole.
TEST(HttpStreamTest, DroppedHttp10StreamIsReset) {
  TestServer server;
  HttpClient client = server.connect();
  client.send("GET /stream HTTP/1.0\r\n\r\n");
  server.wait_for_held(1);
  client.read_until("\r\n\r\n");
  server.let_go();
  EXPECT_TRUE(client.reset_by_server());
}

TEST(HttpStreamTest, LargeStreamArrivesWhole) {
  TestServer server;
  HttpClient client = server.connect(4096);
  client.send(kGetStream);
  const auto held = server.wait_for_held(1);
  std::string expected;
  std::thread reader([&] {
    const HttpAnswer answer = client.read_answer();
    EXPECT_TRUE(answer.whole);
    EXPECT_TRUE(answer.body == expected) << answer.body.size() << " of " << expected.size();
  });
  for (int i = 0; i < 200; ++i) {
    server.run([&] {
      std::string piece = std::to_string(i) + ":";
      piece.append(static_cast<size_t>(i) * 150, static_cast<char>('a' + i % 26));
      expected += piece;
      held[0]->write(piece);
      if (i == 199) held[0]->finish();
    });
  }
  reader.join();
  EXPECT_EQ(server.gone(), 0);
}

TEST(HttpStreamTest, ClientThatDoesNotReadIsDropped) {
  HttpOptions options = test_options();
  options.max_unread_bytes = 100'000;
  TestServer server(options);
  HttpClient client = server.connect(4096);
  HttpClient other = server.connect();
  client.send(kGetStream);
  const auto held = server.wait_for_held(1);
  const std::string piece(20'000, 'x');
  int written = 0;
  bool open = true;
  while (written < 5000 && open) {
    // What the system buffers is the client's own affair: some megabytes at most.
    server.run([&] {
      open = held[0]->is_open();
      if (!open) return;
      held[0]->write(piece);
      ++written;
    });
  }
  EXPECT_GE(written, 5);
  EXPECT_LT(written, 5000);
  EXPECT_EQ(server.gone(), 1);
  EXPECT_EQ(server.server().stats().clients_gone, 1);
  server.run([&] {
    held[0]->write("ignored");
    held[0]->finish();
    bool told = false;
    held[0]->on_gone([&] { told = true; });
    EXPECT_TRUE(told);
  });
  other.send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(other.read_answer().status_line, "HTTP/1.1 200 OK");
}

// One write beyond the limit is fine if the client takes it.
TEST(HttpStreamTest, LimitIsOnWhatIsUnreadNotOnWhatIsWritten) {
  HttpOptions options = test_options();
  options.max_unread_bytes = 100'000;
  TestServer server(options);
  HttpClient client = server.connect();
  client.send(kGetStream);
  const auto held = server.wait_for_held(1);
  const std::string piece(50'000, 'x');
  for (int i = 0; i < 100; ++i) {
    server.run([&] { held[0]->write(piece); });
    if (i == 0) client.read_until("\r\n\r\n");
    EXPECT_EQ(client.read_until("\r\n"), "c350\r\n");
    EXPECT_EQ(client.read_bytes(50'002).size(), 50'002U);
  }
  EXPECT_EQ(server.gone(), 0);
}

}  // namespace
}  // namespace encore
