// Taking a port, and saying why not.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "test_server.h"

namespace encore {
namespace {

HttpOptions at(const std::string& host, int32_t port = 0) {
  HttpOptions options = test_options();
  options.host = host;
  options.port = port;
  return options;
}

TEST(HttpListenTest, TakenPortIsAnErrorThatNamesIt) {
  auto first = HttpServer::bind(at("127.0.0.1"));
  ASSERT_TRUE(first.ok());
  const std::string port = std::to_string((*first)->port());
  const auto second = HttpServer::bind(at("127.0.0.1", (*first)->port()));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(second.status().message(),
            "cannot listen at 127.0.0.1:" + port +
                ": Address already in use; stop the process that has it, or set server.port to "
                "another (0: any free one)");
}

// Connections of the server before wait to be forgotten; the port is ours all the same.
TEST(HttpListenTest, RestartTakesThePortAtOnce) {
  int32_t port = 0;
  for (int i = 0; i < 20; ++i) {
    const auto server = HttpServer::bind(at("127.0.0.1", port));
    ASSERT_TRUE(server.ok()) << server.status().message();
    (*server)->start([](const std::shared_ptr<HttpExchange>& exchange) { exchange->respond({}); });
    port = (*server)->port();
    HttpClient client(port);
    client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(client.read_answer().status_line, "HTTP/1.1 200 OK");
  }
}

TEST(HttpListenTest, ConnectionsQueueFromTheMomentThePortIsTaken) {
  const auto server = HttpServer::bind(at("127.0.0.1"));
  ASSERT_TRUE(server.ok());
  HttpClient client((*server)->port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_FALSE(client.readable(50));
  (*server)->start([](const std::shared_ptr<HttpExchange>& exchange) { exchange->respond({}); });
  EXPECT_EQ(client.read_answer().status_line, "HTTP/1.1 200 OK");
}

TEST(HttpListenTest, AddressesThatAreNotOursOrNone) {
  const auto foreign = HttpServer::bind(at("192.0.2.1", 8000));  // for documentation only, RFC 5737
  ASSERT_FALSE(foreign.ok());
  EXPECT_EQ(foreign.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(foreign.status().message().find("192.0.2.1:8000"), std::string::npos);
  for (const char* host : {"", "300.1.1.1", "no such host"}) {
    const auto none = HttpServer::bind(at(host));
    ASSERT_FALSE(none.ok()) << host;
    EXPECT_EQ(none.status().code(), StatusCode::kInvalidArgument) << none.status().message();
  }
  for (const int32_t port : {-1, 65536}) {
    const auto none = HttpServer::bind(at("127.0.0.1", port));
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.status().message(), "server.port is " + std::to_string(port) +
                                           "; it must be in 0 to 65535 (0: any free one)");
  }
}

TEST(HttpListenTest, NamesAndIpv6) {
  const auto by_name = HttpServer::bind(at("localhost"));
  ASSERT_TRUE(by_name.ok()) << by_name.status().message();
  EXPECT_GT((*by_name)->port(), 0);
  EXPECT_TRUE((*by_name)->host() == "127.0.0.1" || (*by_name)->host() == "::1");

  const auto loopback = HttpServer::bind(at("::1"));
  if (!loopback.ok()) GTEST_SKIP() << "no IPv6 here: " << loopback.status().message();
  EXPECT_EQ((*loopback)->host(), "::1");
  const auto taken = HttpServer::bind(at("::1", (*loopback)->port()));
  ASSERT_FALSE(taken.ok());
  EXPECT_NE(taken.status().message().find("[::1]:"), std::string::npos);

  const auto all = HttpServer::bind(at("::"));
  ASSERT_TRUE(all.ok());
  (*all)->start([](const std::shared_ptr<HttpExchange>& exchange) { exchange->respond({}); });
  for (const char* address : {"127.0.0.1", "::1"}) {
    HttpClient client((*all)->port(), 0, address);
    client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(client.read_answer().status_line, "HTTP/1.1 200 OK") << address;
  }
}

}  // namespace
}  // namespace encore
