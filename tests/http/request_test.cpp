// Well-formed requests: what the handler sees, what the client gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <thread>

#include "test_server.h"

namespace encore {
namespace {

using testing::MatchesRegex;

TEST(HttpRequestTest, HandlerSeesMethodPathQueryHeadersAndBody) {
  const TestServer server;
  const HttpAnswer answer = server.ask(
      "POST /echo?a=1?b=%20 HTTP/1.1\r\nHost: x\r\nx-TEST:  two words \t\r\n"
      "Content-Length: 5\r\n\r\nhello");
  EXPECT_EQ(answer.status_line, "HTTP/1.1 200 OK");
  EXPECT_EQ(answer.headers.at("x-method"), "POST");
  EXPECT_EQ(answer.headers.at("x-path"), "/echo");
  EXPECT_EQ(answer.headers.at("x-query"), "a=1?b=%20");
  EXPECT_EQ(answer.headers.at("x-test"), "two words");
  EXPECT_EQ(answer.headers.at("content-type"), "text/plain");
  EXPECT_EQ(answer.headers.at("content-length"), "5");
  EXPECT_EQ(answer.headers.count("connection"), 0U);
  EXPECT_THAT(answer.headers.at("date"),
              MatchesRegex("[A-Z][a-z]+, [0-9]{2} [A-Z][a-z]+ 20[0-9]{2} "
                           "[0-9]{2}:[0-9]{2}:[0-9]{2} GMT"));
  EXPECT_EQ(answer.body, "hello");
}

TEST(HttpRequestTest, PercentEncodingIsLeftAlone) {
  const TestServer server;
  EXPECT_EQ(server.ask("GET /%65cho HTTP/1.1\r\nHost: x\r\n\r\n").status_line,
            "HTTP/1.1 404 Not Found");
}

TEST(HttpRequestTest, TargetMayBeAUrl) {
  const TestServer server;
  const HttpAnswer answer =
      server.ask("GET http://some.host:80/echo?q HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(answer.headers.at("x-path"), "/echo");
  EXPECT_EQ(answer.headers.at("x-query"), "q");
}

TEST(HttpRequestTest, ChunkedBodyIsJoinedAndItsTrailersAreDropped) {
  const TestServer server;
  const HttpAnswer answer = server.ask(
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n"
      "3\r\nabc\r\n0A;ext=\"1\"\r\n0123456789\r\n0\r\nX-Test: trailer\r\n\r\n");
  EXPECT_EQ(answer.status_line, "HTTP/1.1 200 OK");
  EXPECT_EQ(answer.body, "abc0123456789");
  EXPECT_EQ(answer.headers.at("x-test"), "");
}

TEST(HttpRequestTest, BytesMayArriveOneByOne) {
  const TestServer server;
  HttpClient client = server.connect();
  for (const char c :
       std::string_view("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked"
                        "\r\n\r\n2\r\nab\r\n0\r\n\r\n")) {
    ASSERT_TRUE(client.send({&c, 1}));
  }
  EXPECT_EQ(client.read_answer().body, "ab");
}

TEST(HttpRequestTest, ConnectionServesRequestAfterRequest) {
  const TestServer server;
  HttpClient client = server.connect();
  for (int i = 0; i < 100; ++i) {
    const std::string body(static_cast<size_t>(i), 'b');
    client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(i) +
                "\r\n\r\n" + body);
    ASSERT_EQ(client.read_answer().body, body);
  }
  EXPECT_EQ(server.ask("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n").body, "");
}

TEST(HttpRequestTest, PipelinedRequestWaitsForTheAnswerBeforeIt) {
  TestServer server;
  HttpClient client = server.connect();
  client.send(
      "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"
      "GET /echo?2 HTTP/1.1\r\nHost: x\r\n\r\n"
      "GET /echo?3 HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto held = server.wait_for_held(1);
  EXPECT_FALSE(client.readable(100));
  EXPECT_EQ(server.server().stats().requests, 1);
  server.run([&] {
    EXPECT_TRUE(held[0]->is_open());
    held[0]->respond({.body = "first"});
  });
  EXPECT_EQ(client.read_answer().body, "first");
  EXPECT_EQ(client.read_answer().headers.at("x-query"), "2");
  EXPECT_EQ(client.read_answer().headers.at("x-query"), "3");
  EXPECT_EQ(server.gone(), 0);
}

TEST(HttpRequestTest, ManyPipelinedRequestsAreAllAnsweredInOrder) {
  const TestServer server;
  HttpClient client = server.connect();
  std::string requests;
  for (int i = 0; i < 5000; ++i) {  // more than a client may send ahead
    requests += "GET /echo?" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\n\r\n";
  }
  std::thread sender([&] { client.send(requests); });
  for (int i = 0; i < 5000; ++i) {
    const HttpAnswer answer = client.read_answer();
    if (!answer.whole || answer.headers.at("x-query") != std::to_string(i)) {
      ADD_FAILURE() << "answer " << i << " is " << answer.status_line;
      break;
    }
  }
  sender.join();
}

TEST(HttpRequestTest, ConnectionCloseIsKept) {
  const TestServer server;
  HttpClient client = server.connect();
  client.send("GET /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(client.read_answer().headers.at("connection"), "close");
  EXPECT_TRUE(client.closed_by_server());
}

TEST(HttpRequestTest, Http10ClosesUnlessAskedToStay) {
  const TestServer server;
  HttpClient once = server.connect();
  once.send("GET /echo HTTP/1.0\r\n\r\n");
  const HttpAnswer answer = once.read_answer();
  EXPECT_EQ(answer.status_line, "HTTP/1.1 200 OK");
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_TRUE(once.closed_by_server());

  HttpClient stays = server.connect();
  for (int i = 0; i < 2; ++i) {
    stays.send("GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_EQ(stays.read_answer().headers.at("connection"), "keep-alive");
  }
}

TEST(HttpRequestTest, HeadGetsTheHeadersAlone) {
  TestServer server;
  HttpClient client = server.connect();
  client.send("HEAD /big/1000 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.read_answer(true).headers.at("content-length"), "1000");
  client.send("HEAD /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.read_answer(true).headers.at("transfer-encoding"), "chunked");
  const auto held = server.wait_for_held(1);
  EXPECT_EQ(held[0]->request().method, "HEAD");
  server.run([&] {
    held[0]->write("not sent");
    held[0]->finish();
  });
  client.send("GET /echo?next HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.read_answer().headers.at("x-query"), "next");
}

TEST(HttpRequestTest, NoContentHasNeitherBodyNorLength) {
  TestServer server;
  HttpClient client = server.connect();
  client.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto held = server.wait_for_held(1);
  server.run([&] { held[0]->respond({.status = 204, .body = "not sent"}); });
  const HttpAnswer answer = client.read_answer();
  EXPECT_EQ(answer.status_line, "HTTP/1.1 204 No Content");
  EXPECT_EQ(answer.headers.count("content-length"), 0U);
  client.send("GET /echo?next HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.read_answer().headers.at("x-query"), "next");
}

TEST(HttpRequestTest, WaitingForContinueIsAnswered) {
  const TestServer server;
  HttpClient client = server.connect();
  client.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-Continue\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("body");
  EXPECT_EQ(client.read_answer().body, "body");
}

TEST(HttpRequestTest, NothingIsContinuedThatIsTooLargeOrThereAlready) {
  HttpOptions options = test_options();
  options.max_body_bytes = 10;
  const TestServer server(options);
  HttpClient large = server.connect();
  large.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(large.read_until("\r\n"), "HTTP/1.1 413 Content Too Large\r\n");

  HttpClient eager = server.connect();
  eager.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nbody");
  EXPECT_EQ(eager.read_until("\r\n"), "HTTP/1.1 200 OK\r\n");
}

TEST(HttpRequestTest, RequestIdIsTheClientsOrRandom) {
  const TestServer server;
  const auto ask = [&](const std::string& id) {
    return server.ask("GET /echo HTTP/1.1\r\nHost: x\r\nX-Request-ID: " + id + "\r\n\r\n");
  };
  const HttpAnswer own = ask("abc-123 {\"x\"}");
  EXPECT_EQ(own.headers.at("x-request-id"), "abc-123 {\"x\"}");
  EXPECT_EQ(own.headers.at("x-id"), "abc-123 {\"x\"}");
  EXPECT_EQ(ask(std::string(128, 'a')).headers.at("x-request-id"), std::string(128, 'a'));
  for (const std::string& unfit :
       {std::string(), std::string(129, 'a'), std::string("caf\xc3\xa9"), std::string("a\tb")}) {
    const HttpAnswer given = ask(unfit);
    EXPECT_THAT(given.headers.at("x-request-id"), MatchesRegex("[0-9a-f]{32}")) << unfit;
    EXPECT_EQ(given.headers.at("x-id"), given.headers.at("x-request-id"));
  }
  EXPECT_NE(ask("").headers.at("x-request-id"), ask("").headers.at("x-request-id"));
}

TEST(HttpRequestTest, HeaderValuesCannotEndTheirLine) {
  TestServer server;
  HttpClient client = server.connect();
  client.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto held = server.wait_for_held(1);
  server.run([&] { held[0]->respond({.headers = {{"X-A", "1\r\nX-Forged: 2\n3"}}}); });
  const HttpAnswer answer = client.read_answer();
  EXPECT_EQ(answer.headers.at("x-a"), "1  X-Forged: 2 3");
  EXPECT_EQ(answer.headers.count("x-forged"), 0U);
}

TEST(HttpRequestTest, ExceptionIsA500WithoutItsText) {
  const TestServer server;
  const HttpAnswer answer = server.ask("GET /throw HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(answer.status_line, "HTTP/1.1 500 Internal Server Error");
  EXPECT_EQ(answer.body, "500 the server failed to handle the request");
  EXPECT_EQ(answer.headers.count("x-request-id"), 1U);
  const HttpAnswer late = server.ask("GET /throw_late HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_FALSE(late.whole);
  EXPECT_EQ(server.ask("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n").status_line, "HTTP/1.1 200 OK");
}

TEST(HttpRequestTest, DroppedExchangeClosesItsConnection) {
  TestServer server;
  HttpClient client = server.connect();
  client.send("GET /drop HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(client.closed_by_server());
  EXPECT_TRUE(server.wait_for([](const HttpStats& stats) { return stats.connections_open == 0; }));
  EXPECT_EQ(server.server().stats().clients_gone, 0);
}

}  // namespace
}  // namespace encore
