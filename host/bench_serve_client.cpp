#include "bench_serve_client.h"

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace encore {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = boost::asio::ip::tcp;
using ErrorCode = boost::system::error_code;

// What calls share: where to, how, and the connections that wait for the next one. Outlives them.
struct Server {
  asio::io_context io;
  std::vector<tcp::endpoint> endpoints;
  std::string authority;
  std::string path;
  std::string api_key;
  std::chrono::seconds silence_limit{};
  std::vector<std::unique_ptr<beast::tcp_stream>> idle;  // destroyed before io
};

// One request and its answer. Keeps itself alive until it has ended.
class Call : public std::enable_shared_from_this<Call> {
 public:
  Call(Server& server, http::verb method, const std::string& path, std::string body,
       AnswerHandlers handlers)
      : server_(server), handlers_(std::move(handlers)) {
    request_.method(method);
    request_.target(server.path + path);
    request_.version(11);
    request_.set(http::field::host, server.authority);
    request_.set(http::field::user_agent, "encore-bench");
    if (!server.api_key.empty()) {
      request_.set(http::field::authorization, "Bearer " + server.api_key);
    }
    if (method == http::verb::post) request_.set(http::field::content_type, "application/json");
    request_.body() = std::move(body);
    request_.prepare_payload();
  }

  void start() {
    if (server_.idle.empty()) {
      connect();
      return;
    }
    stream_ = std::move(server_.idle.back());
    server_.idle.pop_back();
    reused_ = true;
    write();
  }

 private:
  void connect() {
    stream_ = std::make_unique<beast::tcp_stream>(server_.io);
    stream_->expires_after(server_.silence_limit);
    stream_->async_connect(server_.endpoints,
                           [self = shared_from_this()](ErrorCode error, const tcp::endpoint&) {
                             if (error) return self->fail("cannot connect", error);
                             ErrorCode ignored;
                             self->stream_->socket().set_option(tcp::no_delay(true), ignored);
                             self->write();
                           });
  }

  void write() {
    stream_->expires_after(server_.silence_limit);
    http::async_write(*stream_, request_, [self = shared_from_this()](ErrorCode error, size_t) {
      if (error) return self->fail("cannot send", error);
      self->read_head();
    });
  }

  void read_head() {
    parser_.emplace();
    parser_->body_limit(std::numeric_limits<uint64_t>::max());
    stream_->expires_after(server_.silence_limit);
    http::async_read_header(
        *stream_, buffer_, *parser_, [self = shared_from_this()](ErrorCode error, size_t) {
          if (error) return self->fail("no answer", error);
          self->answered_ = true;
          self->handlers_.head(static_cast<int32_t>(self->parser_->get().result_int()));
          self->read_body();
        });
  }

  void read_body() {
    if (parser_->is_done()) return finish();
    parser_->get().body().data = chunk_.data();
    parser_->get().body().size = chunk_.size();
    parser_->get().body().more = true;
    stream_->expires_after(server_.silence_limit);
    http::async_read_some(
        *stream_, buffer_, *parser_, [self = shared_from_this()](ErrorCode error, size_t) {
          const size_t size = self->chunk_.size() - self->parser_->get().body().size;
          if (size > 0) self->handlers_.data({self->chunk_.data(), size});
          if (error && error != http::error::need_buffer) {
            return self->fail("the answer broke off", error);
          }
          self->read_body();
        });
  }

  void finish() {
    stream_->expires_never();
    if (parser_->keep_alive()) server_.idle.push_back(std::move(stream_));
    handlers_.end({});
  }

  void fail(const std::string& what, ErrorCode error) {
    // A connection that was kept may have been closed by the server meanwhile: that is no failure.
    if (reused_ && !answered_ && error != beast::error::timeout) {
      reused_ = false;
      buffer_.clear();
      connect();
      return;
    }
    handlers_.end(what + ": " + error.message());
  }

  Server& server_;
  AnswerHandlers handlers_;
  std::unique_ptr<beast::tcp_stream> stream_;
  http::request<http::string_body> request_;
  beast::flat_buffer buffer_;
  std::optional<http::response_parser<http::buffer_body>> parser_;
  std::array<char, 16384> chunk_{};
  bool reused_ = false;    // a connection that had served another call
  bool answered_ = false;  // the head has come
};

class BeastClient : public LoadClient {
 public:
  Status resolve(const ServerUrl& url, const std::string& api_key,
                 std::chrono::seconds silence_limit) {
    server_.authority = url.authority();
    server_.path = url.path;
    server_.api_key = api_key;
    server_.silence_limit = silence_limit;
    ErrorCode error;
    tcp::resolver resolver(server_.io);
    for (const auto& entry : resolver.resolve(url.host, url.port, error)) {
      server_.endpoints.push_back(entry.endpoint());
    }
    if (!error) return {};
    return unavailable("cannot resolve " + url.host + ": " + error.message());
  }

  void post(const std::string& path, std::string body, AnswerHandlers handlers) override {
    call(http::verb::post, path, std::move(body), std::move(handlers));
  }

  void call_at(Clock::time_point when, std::function<void()> work) override {
    auto timer = std::make_shared<asio::steady_timer>(server_.io, when);
    timer->async_wait([timer, work = std::move(work)](ErrorCode error) {
      if (!error) work();
    });
  }

  void run_until(const std::function<bool()>& done, Clock::time_point when) override {
    while (!done() && Clock::now() < when) {
      if (server_.io.stopped()) server_.io.restart();
      // Without anything to wait for it returns at once, and nothing will ever happen.
      if (server_.io.run_one_until(when) == 0 && server_.io.stopped()) return;
    }
  }

  Result<HttpAnswer> fetch(const std::string& path, std::string body) override {
    HttpAnswer answer;
    std::string broken;
    bool ended = false;
    const http::verb method = body.empty() ? http::verb::get : http::verb::post;
    call(method, path, std::move(body),
         {.head = [&answer](int32_t status) { answer.status = status; },
          .data = [&answer](std::string_view bytes) { answer.body += bytes; },
          .end =
              [&](const std::string& why) {
                broken = why;
                ended = true;
              }});
    while (!ended) run_until([&ended] { return ended; }, Clock::now() + std::chrono::hours(1));
    if (broken.empty()) return answer;
    return unavailable(server_.authority + server_.path + path + ": " + broken +
                       "; is the server running there?");
  }

 private:
  void call(http::verb method, const std::string& path, std::string body, AnswerHandlers handlers) {
    std::make_shared<Call>(server_, method, path, std::move(body), std::move(handlers))->start();
  }

  Server server_;
};

}  // namespace

Result<std::unique_ptr<LoadClient>> LoadClient::open(const ServerUrl& url,
                                                     const std::string& api_key,
                                                     std::chrono::seconds silence_limit) {
  auto client = std::make_unique<BeastClient>();
  ENCORE_RETURN_IF_ERROR(client->resolve(url, api_key, silence_limit));
  return std::unique_ptr<LoadClient>(std::move(client));
}

}  // namespace encore
