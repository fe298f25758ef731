#include "http/http_server.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cassert>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

#include "http/connection_set.h"
#include "http/http_context.h"
#include "http/listen.h"
#include "http/log_interval.h"
#include "http/open_files.h"
#include "http/work_queue.h"

namespace encore {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// How long to accept nothing when descriptors or memory are used up: trying again at once would
// only burn the thread that could free some.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

// Signals are for the thread that waits for them: threads that are started meanwhile get none, but
// for those that a thread causes by itself.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (const int own : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP, SIGPROF}) {
      sigdelset(&all, own);
    }
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

class AsioHttpServer final : public HttpServer {
 public:
  explicit AsioHttpServer(HttpOptions options) { context_.options = std::move(options); }
  // What cannot be stopped cannot be destroyed either: an exception would be the end of the
  // process.
  ~AsioHttpServer() override { stop_now(); }  // NOLINT(bugprone-exception-escape)
  AsioHttpServer(const AsioHttpServer&) = delete;
  AsioHttpServer& operator=(const AsioHttpServer&) = delete;

  Status take_port();

  std::string host() const override { return endpoint_.address().to_string(); }
  int32_t port() const override { return endpoint_.port(); }
  void start(HttpHandler handler, HttpHeadCheck head_check) override;
  void post(std::function<void()> work) override;
  void drain() override;
  void stop() override { stop_now(); }
  HttpStats stats() const override { return context_.counters.read(); }

 private:
  void accept();
  void accepted(error_code error, tcp::socket socket);
  void report_accept_error(error_code error);
  void close_all();
  void stop_now();

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> stay_{io_.get_executor()};
  HttpContext context_;
  tcp::acceptor acceptor_{io_};
  tcp::endpoint endpoint_;
  asio::steady_timer accept_pause_{io_};
  LogInterval accept_error_line_;
  ConnectionSet connections_{io_, context_};
  WorkQueue works_;
  std::thread thread_;
};

Status AsioHttpServer::take_port() {
  ENCORE_ASSIGN_OR_RETURN(acceptor_, listen(io_, context_.options.host, context_.options.port));
  error_code error;
  endpoint_ = acceptor_.local_endpoint(error);
  if (error) return internal_error("cannot ask for the port that was taken: " + error.message());
  context_.room = make_connection_room(context_.options.max_connections);
  return {};
}

void AsioHttpServer::start(HttpHandler handler, HttpHeadCheck head_check) {
  assert(!thread_.joinable() && "start() is called once");
  context_.handler = std::move(handler);
  context_.head_check = std::move(head_check);
  asio::post(io_, [this] {
    connections_.start();
    accept();
  });
  const SignalsBlocked blocked;
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "encore-http");
    io_.run();
  });
}

void AsioHttpServer::accept() {
  acceptor_.async_accept(
      [this](error_code error, tcp::socket socket) { accepted(error, std::move(socket)); });
}

void AsioHttpServer::accepted(error_code error, tcp::socket socket) {
  if (!acceptor_.is_open()) return;
  if (!error) {
    connections_.add(std::move(socket));
    return accept();
  }
  if (error == asio::error::connection_aborted) return accept();  // gone before it was our turn
  report_accept_error(error);
  accept_pause_.expires_after(kAcceptPause);
  accept_pause_.async_wait([this](error_code cancelled) {
    if (!cancelled && acceptor_.is_open()) accept();
  });
}

void AsioHttpServer::report_accept_error(error_code error) {
  context_.counters.accept_errors.fetch_add(1, std::memory_order_relaxed);
  if (!accept_error_line_.due(connections_.now_ms())) return;
  spdlog::warn(
      "cannot accept connections: {}; clients wait until others have left; if files are what is "
      "missing, raise the limit of open files (ulimit -n) or lower server.max_connections",
      error.message());
}

void AsioHttpServer::post(std::function<void()> work) {
  if (works_.push(std::move(work))) asio::post(io_, [this] { works_.run(); });
}

void AsioHttpServer::drain() {
  asio::post(io_, [this] {
    error_code ignored;
    acceptor_.close(ignored);
    context_.draining = true;
    connections_.drain();
  });
}

void AsioHttpServer::close_all() {
  error_code ignored;
  acceptor_.close(ignored);
  accept_pause_.cancel();
  connections_.stop();
}

void AsioHttpServer::stop_now() {
  works_.close();
  if (!thread_.joinable()) return close_all();
  assert(thread_.get_id() != std::this_thread::get_id() && "stop() waits for the server's thread");
  asio::post(io_, [this] {
    close_all();
    io_.stop();
  });
  thread_.join();
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::bind(HttpOptions options) {
  auto server = std::make_unique<AsioHttpServer>(std::move(options));
  ENCORE_RETURN_IF_ERROR(server->take_port());
  return Result<std::unique_ptr<HttpServer>>(std::move(server));
}

}  // namespace encore
