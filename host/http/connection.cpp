#include "http/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <string_view>
#include <utility>

#include "http/connection_set.h"

namespace encore {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// A client whose machine is gone without a word is found out after about 90 s, also when there is
// nothing to send.
constexpr int kKeepAliveIdleSeconds = 60;
constexpr int kKeepAliveIntervalSeconds = 10;
constexpr int kKeepAliveProbes = 3;

void set_int(tcp::socket& socket, int level, int name, int value) {
  setsockopt(socket.native_handle(), level, name, &value, sizeof(value));
}

bool would_block(error_code error) {
  return error == asio::error::would_block || error == asio::error::try_again ||
         error == asio::error::interrupted;
}

}  // namespace

Connection::Connection(tcp::socket socket, ConnectionSet& set, bool counted)
    : socket_(std::move(socket)),
      set_(set),
      session_(
          set.context(), [this] { wake(); }, set.now_ms()),
      counted_(counted) {}

// Failures here are of no consequence, or show again at the first read.
void Connection::set_options() {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  set_int(socket_, IPPROTO_TCP, TCP_NODELAY, 1);
  set_int(socket_, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_int(socket_, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleSeconds);
  set_int(socket_, IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveIntervalSeconds);
  set_int(socket_, IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveProbes);
}

void Connection::start() {
  set_options();
  wait_for_input();
}

void Connection::refuse() {
  set_options();
  session_.refuse_connection();
}

void Connection::wake() {
  if (std::exchange(busy_, true)) return;
  set_.pump_later(shared_from_this());
}

void Connection::pump() {
  busy_ = true;
  do {
    send();
  } while (session_.advance(set_.now_ms()));
  busy_ = false;
  if (session_.phase() == HttpSession::Phase::kClosed) return close();
  if (session_.phase() == HttpSession::Phase::kLingering && !std::exchange(half_closed_, true)) {
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
  }
  wait_for_input();
}

// While a request is answered, too: that is how a client that leaves is noticed at once.
void Connection::wait_for_input() {
  if (waiting_for_input_ || !session_.wants_input()) return;
  waiting_for_input_ = true;
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
    self->waiting_for_input_ = false;
    if (!error) self->read();
  });
}

void Connection::read() {
  if (!socket_.is_open()) return;
  busy_ = true;
  const auto buffer = set_.read_buffer();
  error_code error;
  const size_t bytes = socket_.read_some(asio::buffer(buffer.data(), buffer.size()), error);
  if (error == asio::error::eof) {
    session_.receive_end();
  } else if (!error) {
    session_.receive(std::string_view(buffer.data(), bytes), set_.now_ms());
  } else if (!would_block(error)) {
    session_.connection_failed();
  }
  pump();
}

void Connection::send() {
  while (!waiting_for_room_ && session_.phase() != HttpSession::Phase::kClosed) {
    const auto parts = session_.output();
    std::array<asio::const_buffer, 3> buffers;
    for (size_t i = 0; i < parts.size(); ++i) buffers[i] = {parts[i].data(), parts[i].size()};
    if (asio::buffer_size(buffers) == 0) break;
    error_code error;
    const size_t bytes = socket_.write_some(buffers, error);
    if (!error) {
      session_.sent(bytes, set_.now_ms());
    } else if (would_block(error)) {
      wait_for_room();
    } else {
      session_.connection_failed();
    }
  }
  session_.check_unread();
}

void Connection::wait_for_room() {
  waiting_for_room_ = true;
  socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](error_code error) {
    self->waiting_for_room_ = false;
    if (!error && self->socket_.is_open()) self->pump();
  });
}

void Connection::check_time() {
  session_.check_time(set_.now_ms());
  look_for_end();
  pump();
}

// Of a client that has sent so much ahead that nothing more is read from it: what it has sent hides
// that it is gone, except from poll().
void Connection::look_for_end() {
  if (waiting_for_input_ || session_.wants_input()) return;
  pollfd state{.fd = socket_.native_handle(), .events = POLLRDHUP, .revents = 0};
  if (poll(&state, 1, 0) <= 0) return;
  if ((state.revents & (POLLERR | POLLHUP)) != 0) {
    session_.connection_failed();
  } else if (session_.phase() == HttpSession::Phase::kAnswering) {
    session_.receive_end();
  }
}

// What has arrived by now is still a request.
void Connection::drain() {
  if (session_.phase() == HttpSession::Phase::kIdle) read();
  session_.drain();
  if (socket_.is_open()) pump();
}

void Connection::stop() {
  session_.stop();
  close();
}

void Connection::close() {
  if (!socket_.is_open()) return;
  error_code ignored;
  if (session_.must_reset()) socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  socket_.close(ignored);
  set_.remove(shared_from_this());
}

}  // namespace encore
