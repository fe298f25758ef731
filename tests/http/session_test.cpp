// The protocol without sockets and with a clock of its own: what takes hours, or many connections.
#include "http/session.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "test_server.h"

namespace encore {
namespace {

constexpr int64_t kIdleMs = 1000;

// What the connections of one server share. Its handler answers with the body, at once; /hold
// keeps the exchange, /stream also starts a stream.
class Shared {
 public:
  Shared() {
    context.options = test_options();
    context.options.idle_timeout_ms = kIdleMs;
    context.options.max_body_bytes = 1000;
    context.options.max_unread_bytes = 1000;
    context.handler = [this](const std::shared_ptr<HttpExchange>& exchange) {
      const std::string path = exchange->request().path;
      if (path == "/stream") exchange->start_stream(200, "text/plain", {});
      if (path == "/stream" || path == "/hold") {
        held.push_back(exchange);
      } else {
        exchange->respond({.body = exchange->take_body()});
      }
    };
  }

  HttpContext context;
  std::vector<std::shared_ptr<HttpExchange>> held;
  int64_t now_ms = 5000;
};

// One connection, by hand.
class Line {
 public:
  explicit Line(Shared& shared)
      : shared_(shared),
        session_(
            shared.context, [] {}, shared.now_ms) {}

  HttpSession& session() { return session_; }
  bool is_open() const { return session_.phase() != HttpSession::Phase::kClosed; }

  void send(std::string_view bytes) { session_.receive(bytes, shared_.now_ms); }
  // The client reads all there is, or so many bytes; the session goes on.
  std::string read(size_t bytes = SIZE_MAX) {
    std::string all;
    do {
      bool more = true;
      while (more && bytes > 0) {
        size_t taken = 0;
        for (std::string_view part : session_.output()) {
          part = part.substr(0, bytes);
          bytes -= part.size();
          taken += part.size();
          all += part;
        }
        more = taken > 0;
        if (more) session_.sent(taken, shared_.now_ms);
      }
      session_.check_unread();
    } while (session_.advance(shared_.now_ms));
    return all;
  }
  void let_pass(int64_t ms) {
    shared_.now_ms += ms;
    session_.check_time(shared_.now_ms);
  }

 private:
  Shared& shared_;
  HttpSession session_;
};

std::string first_line(const std::string& answer) { return answer.substr(0, answer.find("\r\n")); }

std::string post(int bytes) {
  return "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(bytes) + "\r\n\r\n";
}

constexpr const char* kTooMuch = "HTTP/1.1 503 Service Unavailable";

HttpContext& refusing(HttpContext& context) {
  context.head_check = [](const HttpRequest& head) -> std::optional<HttpResponse> {
    if (head.path == "/throw") throw std::runtime_error("a secret");
    if (head.path != "/refused") return {};
    return HttpResponse{.status = 401, .body = "no", .headers = {{"X-Why", "because"}}};
  };
  return context;
}

TEST(HttpHeadCheckTest, RefusalComesBeforeTheBodyAndClosesTheConnection) {
  for (const std::string more : {"", "Expect: 100-continue\r\n"}) {
    Shared shared;
    const HttpContext& context = refusing(shared.context);
    Line line(shared);
    line.send("POST /refused HTTP/1.1\r\nHost: x\r\nX-Request-Id: mine\r\n" + more);
    EXPECT_EQ(line.read(), "");
    line.send("Content-Length: 1000\r\n\r\nbegun");
    const std::string answer = line.read();
    EXPECT_EQ(first_line(answer), "HTTP/1.1 401 Unauthorized");
    for (const char* header : {"X-Why: because", "X-Request-Id: mine", "Connection: close"}) {
      EXPECT_NE(answer.find(std::string("\r\n") + header + "\r\n"), std::string::npos) << header;
    }
    EXPECT_EQ(answer.substr(answer.find("\r\n\r\n")), "\r\n\r\nno");
    EXPECT_EQ(line.session().phase(), HttpSession::Phase::kLingering);
    line.send(std::string(995, 'b'));
    EXPECT_EQ(line.read(), "");
    EXPECT_EQ(context.counters.requests.load(), 1);
    EXPECT_EQ(context.counters.requests_refused.load(), 0) << "counted by who refused it";
  }
}

// The handler says the same, and the connection stays open.
TEST(HttpHeadCheckTest, WholeRequestIsForTheHandler) {
  Shared shared;
  refusing(shared.context);
  Line line(shared);
  line.send("POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody");
  EXPECT_EQ(first_line(line.read()), "HTTP/1.1 200 OK");
  EXPECT_EQ(line.session().phase(), HttpSession::Phase::kIdle);
}

TEST(HttpHeadCheckTest, OtherRequestsGoOn) {
  Shared shared;
  refusing(shared.context);
  Line line(shared);
  line.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(line.read(), "HTTP/1.1 100 Continue\r\n\r\n");
  line.send("body");
  EXPECT_EQ(first_line(line.read()), "HTTP/1.1 200 OK");
  EXPECT_EQ(shared.context.counters.requests.load(), 1);
}

TEST(HttpHeadCheckTest, ExceptionIsA500WithoutItsText) {
  Shared shared;
  refusing(shared.context);
  Line line(shared);
  line.send("POST /throw HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n");
  const std::string answer = line.read();
  EXPECT_EQ(first_line(answer), "HTTP/1.1 500 Internal Server Error");
  EXPECT_EQ(answer.find("secret"), std::string::npos);
}

// Eight bodies of the largest size, less a byte each, leave eight bytes.
class HttpBodiesTest : public ::testing::Test {
 protected:
  HttpBodiesTest() {
    for (int i = 0; i < 8; ++i) {
      lines_.push_back(std::make_unique<Line>(shared_));
      lines_.back()->send(post(1000));
      lines_.back()->send(std::string(999, 'a'));
      EXPECT_EQ(lines_.back()->read(), "");
    }
  }

  Shared shared_;
  std::vector<std::unique_ptr<Line>> lines_;
};

TEST_F(HttpBodiesTest, AnnouncedBodyThatDoesNotFitBesideTheOthersIsA503) {
  Line line(shared_);
  line.send(post(9));
  const std::string answer = line.read();
  EXPECT_EQ(first_line(answer), kTooMuch);
  EXPECT_NE(answer.find("\r\nRetry-After: 1\r\n"), std::string::npos);
  EXPECT_NE(answer.find("\r\nConnection: close\r\n"), std::string::npos);
  EXPECT_NE(answer.find("503 over 8000 bytes of requests are being received, which is 8 times "
                        "server.max_body_bytes; try again later"),
            std::string::npos)
      << answer;
  EXPECT_EQ(shared_.context.counters.requests_refused.load(), 1);
  EXPECT_EQ(shared_.context.counters.requests.load(), 0);
  Line waits(shared_);
  waits.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(first_line(waits.read()), kTooMuch);
}

TEST_F(HttpBodiesTest, BodyOfUnknownLengthIsA503OnceItDoesNotFit) {
  Line line(shared_);
  line.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n");
  EXPECT_EQ(line.read(), "");
  line.send("1\r\n9\r\n");
  EXPECT_EQ(first_line(line.read()), kTooMuch);
}

TEST_F(HttpBodiesTest, WhatFitsOrIsThereWithItsHeadIsServed) {
  Line fits(shared_);
  fits.send(post(8));
  EXPECT_EQ(fits.read(), "");
  fits.send("12345678");
  EXPECT_EQ(first_line(fits.read()), "HTTP/1.1 200 OK");
  Line whole(shared_);
  whole.send(post(100) + std::string(100, 'b'));
  EXPECT_EQ(first_line(whole.read()), "HTTP/1.1 200 OK");
}

// By being complete, refused, cut off, or too slow.
TEST_F(HttpBodiesTest, BodiesThatEndMakeRoom) {
  lines_[0]->send("z");
  EXPECT_EQ(first_line(lines_[0]->read()), "HTTP/1.1 200 OK");
  lines_[1]->session().receive_end();
  lines_[2]->session().connection_failed();
  lines_[3] = nullptr;
  Line line(shared_);
  line.send(post(1000));
  line.send(std::string(999, 'a'));
  EXPECT_EQ(line.read(), "");
  for (const auto& each : lines_) {
    if (each != nullptr) each->let_pass(3000);
  }
  line.let_pass(0);
  for (int i = 0; i < 8; ++i) {
    lines_[i] = std::make_unique<Line>(shared_);
    lines_[i]->send(post(1000));
    lines_[i]->send(std::string(999, 'a'));
    EXPECT_EQ(lines_[i]->read(), "");
  }
}

// It means nothing (RFC 9110, section 9.3.1), and GET is what needs no key.
TEST_F(HttpBodiesTest, BodyOfAGetIsThrownAway) {
  Line line(shared_);
  line.send("GET /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
  line.send(std::string(999, 'a'));
  EXPECT_EQ(line.read(), "");
  line.send("aGET /echo?next HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string answers = line.read();
  EXPECT_EQ(first_line(answers), "HTTP/1.1 200 OK");
  EXPECT_NE(answers.find("\r\nContent-Length: 0\r\n"), std::string::npos);
  EXPECT_EQ(shared_.context.counters.requests.load(), 2);
}

// A byte now and then keeps the line from being silent, and must not keep it for ever.
TEST(HttpSlowReaderTest, CompleteAnswerMustBeTakenAtSomeSpeed) {
  Shared shared;
  Line line(shared);
  line.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  shared.held[0]->respond({.body = std::string(1 << 20, 'b')});
  int64_t waited_ms = 0;
  for (; line.is_open() && waited_ms < 100'000; waited_ms += 500) {
    EXPECT_EQ(line.read(1).size(), 1U);
    line.let_pass(500);
  }
  EXPECT_EQ(waited_ms, 1500);  // a few bytes are worth a few milliseconds
  EXPECT_EQ(shared.context.counters.clients_gone.load(), 1);
}

TEST(HttpSlowReaderTest, SteadyOneMayTakeLongerThanTheIdleTime) {
  Shared shared;
  Line line(shared);
  line.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  shared.held[0]->respond({.body = std::string(100 << 10, 'b')});
  size_t taken = 0;
  while (line.session().phase() == HttpSession::Phase::kSending && shared.now_ms < 200'000) {
    taken += line.read(600).size();
    line.let_pass(500);
  }
  EXPECT_EQ(line.session().phase(), HttpSession::Phase::kIdle);
  EXPECT_GT(taken, 100U << 10);
  EXPECT_GT(shared.now_ms, 80'000);
}

// The limit is 1000 bytes, and more is written at once than a socket takes at once.
class HttpUnreadTest : public ::testing::Test {
 protected:
  HttpUnreadTest() {
    line_.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    line_.read();
    write(5000);
    EXPECT_EQ(line_.read(700).size(), 700U);
  }

  void write(size_t bytes) { shared_.held[0]->write(std::string(bytes, 'w')); }

  Shared shared_;
  Line line_{shared_};
};

TEST_F(HttpUnreadTest, OneLargeWriteMayBeTakenInPieces) {
  while (line_.is_open() && line_.read(700).size() == 700) {
    write(1);  // the stream goes on meanwhile
    line_.let_pass(4000);
  }
  EXPECT_TRUE(shared_.held[0]->is_open());
  EXPECT_EQ(shared_.context.counters.clients_gone.load(), 0);
  // And after that the next one.
  write(5000);
  EXPECT_EQ(line_.read(700).size(), 700U);
  line_.let_pass(4000);
  EXPECT_TRUE(shared_.held[0]->is_open());
}

TEST_F(HttpUnreadTest, ClientThatTakesNothingBeyondTheLimitIsDropped) {
  line_.let_pass(1000);
  line_.let_pass(4900);
  EXPECT_TRUE(line_.is_open());
  line_.let_pass(100);
  EXPECT_FALSE(line_.is_open());
  EXPECT_TRUE(line_.session().must_reset());
  EXPECT_EQ(shared_.context.counters.clients_gone.load(), 1);
}

TEST_F(HttpUnreadTest, WithinTheLimitItMayTakeItsTime) {
  EXPECT_EQ(line_.read(3400).size(), 3400U);
  line_.let_pass(1000);
  line_.let_pass(3'600'000);
  EXPECT_TRUE(line_.is_open());
}

// What it takes now and then keeps it, and must not make the server hold ever more.
TEST_F(HttpUnreadTest, OneThatFallsFurtherBehindIsDropped) {
  int64_t written = 0;
  while (line_.is_open() && written < 100'000) {
    write(100);
    written += 100;
    line_.read(1);
    line_.let_pass(100);
  }
  EXPECT_EQ(written, 1100);
  EXPECT_EQ(shared_.context.counters.clients_gone.load(), 1);
}

}  // namespace
}  // namespace encore
