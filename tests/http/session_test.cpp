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

}  // namespace
}  // namespace encore
