// Requests that are wrong, too large, too slow, or meant to be read differently by two parsers.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "test_server.h"

namespace encore {
namespace {

using std::string_literals::operator""s;

// The answer must refuse, carry an id and close; the next client must be served.
void expect_refused(const TestServer& server, const std::string& request,
                    const std::string& status_line) {
  HttpClient client = server.connect();
  client.send(request);
  const HttpAnswer answer = client.read_answer(request.substr(0, 5) == "HEAD ");
  EXPECT_EQ(answer.status_line, status_line) << request.substr(0, 200);
  if (answer.status_line.empty()) return;
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_EQ(answer.headers.at("x-request-id").size(), 32U);
  if (!answer.body.empty()) {
    EXPECT_EQ(answer.body.substr(0, 4), status_line.substr(9, 4));
  }
  EXPECT_TRUE(client.closed_by_server());
  EXPECT_EQ(server.ask("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n").status_line, "HTTP/1.1 200 OK");
}

constexpr const char* kBad = "HTTP/1.1 400 Bad Request";
constexpr const char* kTooLarge = "HTTP/1.1 413 Content Too Large";
constexpr const char* kHeaderTooLarge = "HTTP/1.1 431 Request Header Fields Too Large";

TEST(HttpMalformedTest, WhatIsNotHttpIsA400) {
  const TestServer server;
  const std::vector<std::string> requests = {
      "hello\r\n\r\n",
      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS client's hello"s,
      "GET /echo\r\n\r\n",                                       // HTTP/0.9
      "GET /echo HTTP/2.0\r\nHost: x\r\n\r\n",                   // another version
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",                        // HTTP/2's preface
      "GET  /echo HTTP/1.1\r\nHost: x\r\n\r\n",                  // two spaces
      "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",                    // a space in the target
      "GET echo HTTP/1.1\r\nHost: x\r\n\r\n",                    // neither path nor URL
      "GET ?a HTTP/1.1\r\nHost: x\r\n\r\n",                      //
      "CONNECT host:443 HTTP/1.1\r\nHost: x\r\n\r\n",            //
      "GET /caf\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n",            // not ASCII
      "GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n"s,                    // NUL in the target
      "G@T /echo HTTP/1.1\r\nHost: x\r\n\r\n",                   // a method that is no token
      "GET /echo HTTP/1.1\nHost: x\n\n",                         // LF alone
      "GET /echo HTTP/1.1\r\nHost: x\rX: y\r\n\r\n",             // CR alone
      "GET /echo HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n"s,       // NUL in a value
      "GET /echo HTTP/1.1\r\nHost: x\r\nX: a\x01z\r\n\r\n"s,     // a control character
      "GET /echo HTTP/1.1\r\nHost: x\r\nX\0Y: a\r\n\r\n"s,       // NUL in a name
      "GET /echo HTTP/1.1\r\nHost: x\r\nX Y: a\r\n\r\n",         // a space in a name
      "GET /echo HTTP/1.1\r\nHost: x\r\nX : a\r\n\r\n",          // a space after a name
      "GET /echo HTTP/1.1\r\nHost: x\r\n: a\r\n\r\n",            // no name
      "GET /echo HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n",       //
      "GET /echo HTTP/1.1\r\n\r\n",                              // no Host
      "GET /echo HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n",        // two of them
      "GET /echo HTTP/1.1\r\nHost: x\r\nConnection: ;\r\n\r\n",  //
  };
  for (const std::string& request : requests) expect_refused(server, request, kBad);
  EXPECT_EQ(server.server().stats().requests_refused, static_cast<int64_t>(requests.size()));
}

// What a proxy before us may read as one request, and we as two, or the other way round.
TEST(HttpMalformedTest, BodyOfTwoLengthsIsA400) {
  const TestServer server;
  const std::vector<std::string> headers = {
      "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
      "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
      "Content-Length: 5\r\nContent-Length: 6\r\n",
      "Content-Length: 5\r\nContent-Length: 5\r\n",
      "Content-Length: 5, 5\r\n",
      "Content-Length: 5, 6\r\n",
      "Content-Length: +5\r\n",
      "Content-Length: -5\r\n",
      "Content-Length: 0x5\r\n",
      "Content-Length: 5 5\r\n",
      "Content-Length: \r\n",
      "Content-Length: five\r\n",
      "Content-Length: 18446744073709551616\r\n",
      "Content-Length : 5\r\n",
      "Transfer-Encoding: gzip\r\n",
      "Transfer-Encoding: gzip, chunked\r\n",
      "Transfer-Encoding: chunked, identity\r\n",
      "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
      "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
      "Transfer-Encoding: \"chunked\"\r\n",
      "Transfer-Encoding: xchunked\r\n",
      "Transfer-Encoding: \x0b"s + "chunked\r\n",
      "Transfer-Encoding:\r\n",
      "Transfer-Encoding : chunked\r\n",
  };
  for (const std::string& header : headers) {
    expect_refused(server, "POST /echo HTTP/1.1\r\nHost: x\r\n" + header + "\r\n0\r\n\r\n", kBad);
  }
  expect_refused(server, "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                 kBad);
  EXPECT_EQ(server.server().stats().requests_refused, static_cast<int64_t>(headers.size()) + 1);
}

TEST(HttpMalformedTest, ChunksThatAreNoneAreA400) {
  const TestServer server;
  for (const char* body :
       {"x\r\n", "\r\n\r\n", "-1\r\n\r\n", "2\r\nabc\r\n0\r\n\r\n", "2\nab\r\n0\r\n\r\n",
        "11111111111111111\r\n", "1;\x01\r\na\r\n0\r\n\r\n", "0\r\nX Y: bad trailer\r\n\r\n"}) {
    expect_refused(
        server,
        std::string("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n") + body,
        kBad);
  }
}

TEST(HttpMalformedTest, BodyAtTheLimitPassesAndOneByteMoreDoesNot) {
  HttpOptions options = test_options();
  options.max_body_bytes = 1000;
  const TestServer server(options);
  const std::string head = "POST /echo HTTP/1.1\r\nHost: x\r\n";
  const std::string body(1000, 'a');
  EXPECT_EQ(server.ask(head + "Content-Length: 1000\r\n\r\n" + body).body, body);
  EXPECT_EQ(
      server.ask(head + "Transfer-Encoding: chunked\r\n\r\n3E8\r\n" + body + "\r\n0\r\n\r\n").body,
      body);
  // Refused by the length alone: no body was sent.
  expect_refused(server, head + "Content-Length: 1001\r\n\r\n", kTooLarge);
  expect_refused(server, head + "Content-Length: 18446744073709551615\r\n\r\n", kTooLarge);
  expect_refused(server, head + "Transfer-Encoding: chunked\r\n\r\n3E9\r\n", kTooLarge);
  expect_refused(server,
                 head + "Transfer-Encoding: chunked\r\n\r\n3E8\r\n" + body + "\r\n1\r\na\r\n",
                 kTooLarge);
}

// The answer must arrive although the client is still sending when it is refused.
TEST(HttpMalformedTest, LargeBodyThatIsOnItsWayGetsItsAnswer) {
  const TestServer server;
  HttpClient client = server.connect();
  ASSERT_TRUE(client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 209715200\r\n\r\n"));
  const std::string piece(1 << 20, 'a');
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(client.send(piece)) << "MiB " << i;
  const HttpAnswer answer = client.read_answer();
  EXPECT_EQ(answer.status_line, kTooLarge);
  EXPECT_EQ(answer.body,
            "413 the request's body is larger than 33554432 bytes, which is the limit");
}

TEST(HttpMalformedTest, HeadersAtTheLimitPassAndMoreDoNot) {
  HttpOptions options = test_options();
  options.max_header_bytes = 2000;
  const TestServer server(options);
  // 29 bytes are "GET /echo HTTP/1.1\r\nHost: x\r\n" (less the last two of "\r\n\r\n"), 5 "X: " and
  // CR LF.
  const auto with_value = [](size_t bytes) {
    return "GET /echo HTTP/1.1\r\nHost: x\r\nX: " + std::string(bytes, 'v') + "\r\n\r\n";
  };
  EXPECT_EQ(server.ask(with_value(1960)).status_line, "HTTP/1.1 200 OK");
  expect_refused(server, with_value(1970), kHeaderTooLarge);
  expect_refused(server, with_value(1'000'000), kHeaderTooLarge);
  expect_refused(server, "GET /" + std::string(3000, 'p') + " HTTP/1.1\r\nHost: x\r\n\r\n",
                 kHeaderTooLarge);
  expect_refused(server, "GET /" + std::string(3000, 'p'), kHeaderTooLarge);
  std::string many = "GET /echo HTTP/1.1\r\nHost: x\r\n";
  for (int i = 0; i < 400; ++i) many += "A: b\r\n";
  expect_refused(server, many + "\r\n", kHeaderTooLarge);
  expect_refused(server, many, kHeaderTooLarge);
  const std::string chunked =
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  expect_refused(server, chunked + "1;" + std::string(70'000, 'e'), kHeaderTooLarge);
  expect_refused(server, chunked + "0\r\nT: " + std::string(70'000, 't'), kHeaderTooLarge);
}

TEST(HttpMalformedTest, HeadersThatComeInPiecesAreLimitedToo) {
  HttpOptions options = test_options();
  options.max_header_bytes = 2000;
  const TestServer server(options);
  HttpClient client = server.connect();
  client.send("GET /echo HTTP/1.1\r\nHost: x\r\n");
  int sent = 0;
  while (!client.readable(1) && sent < 400) {
    client.send("A: b\r\n");
    ++sent;
  }
  EXPECT_EQ(client.read_answer().status_line, kHeaderTooLarge);
  EXPECT_GE(sent, 300);
  EXPECT_LT(sent, 400);
}

TEST(HttpMalformedTest, OtherExpectationsAreA417) {
  const TestServer server;
  expect_refused(server, "GET /echo HTTP/1.1\r\nHost: x\r\nExpect: miracles\r\n\r\n",
                 "HTTP/1.1 417 Expectation Failed");
}

TEST(HttpMalformedTest, RefusalCarriesTheClientsRequestId) {
  const TestServer server;
  const HttpAnswer answer = server.ask(
      "POST /echo HTTP/1.1\r\nHost: x\r\nX-Request-Id: mine\r\nContent-Length: x\r\n\r\n");
  EXPECT_EQ(answer.status_line, kBad);
  EXPECT_EQ(answer.headers.at("x-request-id"), "mine");
  EXPECT_EQ(answer.body, "400 malformed request: cannot read Content-Length");
}

TEST(HttpMalformedTest, RefusalOfHeadHasNoBody) {
  const TestServer server;
  HttpClient client = server.connect();
  client.send("HEAD /echo HTTP/1.1\r\nHost: x\r\nExpect: miracles\r\n\r\n");
  const std::string answer = client.read_all();
  EXPECT_EQ(answer.substr(0, answer.find("\r\n")), "HTTP/1.1 417 Expectation Failed");
  EXPECT_EQ(answer.substr(answer.size() - 4), "\r\n\r\n");
}

TEST(HttpMalformedTest, AnswersBeforeAMalformedRequestAreSent) {
  const TestServer server;
  HttpClient client = server.connect();
  client.send("GET /echo?1 HTTP/1.1\r\nHost: x\r\n\r\nnonsense\r\n\r\n");
  EXPECT_EQ(client.read_answer().headers.at("x-query"), "1");
  EXPECT_EQ(client.read_answer().status_line, kBad);
  EXPECT_TRUE(client.closed_by_server());
}

TEST(HttpMalformedTest, EmptyLineBeforeARequestIsForgiven) {
  const TestServer server;
  HttpClient client = server.connect();
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na\r\n");
  EXPECT_EQ(client.read_answer().body, "a");
  client.send("GET /echo?2 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.read_answer().headers.at("x-query"), "2");
}

HttpOptions impatient() {
  HttpOptions options = test_options();
  options.idle_timeout_ms = 300;
  return options;
}

TEST(HttpSlowClientTest, IdleConnectionIsClosedWithoutAWord) {
  const TestServer server(impatient());
  HttpClient silent = server.connect();
  EXPECT_TRUE(silent.closed_by_server());
  HttpClient kept = server.connect();
  kept.send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(kept.read_answer().status_line, "HTTP/1.1 200 OK");
  EXPECT_TRUE(kept.closed_by_server());
  EXPECT_EQ(server.server().stats().requests_refused, 0);
}

TEST(HttpSlowClientTest, HalfARequestIsA408) {
  const TestServer server(impatient());
  for (const char* request : {"GET /echo HTT", "GET /echo HTTP/1.1\r\nHost: x\r\n",
                              "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabc"}) {
    HttpClient client = server.connect();
    client.send(request);
    const HttpAnswer answer = client.read_answer();
    EXPECT_EQ(answer.status_line, "HTTP/1.1 408 Request Timeout");
    EXPECT_EQ(answer.headers.at("connection"), "close");
    EXPECT_TRUE(client.closed_by_server());
  }
  EXPECT_EQ(server.server().stats().requests_refused, 3);
}

// A byte every 20 ms keeps the line from being silent, and must not keep it open.
TEST(HttpSlowClientTest, DrippingRequestIsA408) {
  const TestServer server(impatient());
  for (const char* start : {"GET /echo HTTP/1.1\r\nX: ",
                            "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"}) {
    HttpClient client = server.connect();
    client.send(start);
    int sent = 0;
    for (; sent < 500 && !client.readable(20); ++sent) client.send("a");
    EXPECT_LT(sent, 500);
    EXPECT_EQ(client.read_answer().status_line, "HTTP/1.1 408 Request Timeout");
  }
}

TEST(HttpSlowClientTest, SteadyBodyMayTakeLongerThanTheIdleTime) {
  const TestServer server(impatient());
  HttpClient client = server.connect();
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 20000\r\n\r\n");
  for (int i = 0; i < 20; ++i) {
    client.send(std::string(1000, 'a'));
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  EXPECT_EQ(client.read_answer().status_line, "HTTP/1.1 200 OK");
}

TEST(HttpSlowClientTest, RequestThatIsBeingAnsweredHasAllTheTime) {
  TestServer server(impatient());
  HttpClient client = server.connect();
  client.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto held = server.wait_for_held(1);
  EXPECT_FALSE(client.readable(900));
  server.run([&] { held[0]->respond({.body = std::string(3 << 20, 'b')}); });
  EXPECT_TRUE(client.read_answer().whole);
  EXPECT_EQ(server.gone(), 0);
}

TEST(HttpSlowClientTest, CompleteAnswerDoesNotWaitForEver) {
  const TestServer server(impatient());
  HttpClient client = server.connect(4096);
  client.send("GET /big/30000000 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(server.wait_for([](const HttpStats& stats) { return stats.clients_gone == 1; }));
  EXPECT_TRUE(server.wait_for([](const HttpStats& stats) { return stats.connections_open == 0; }));
}

}  // namespace
}  // namespace encore
