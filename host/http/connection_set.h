// The open connections of one server, and what they share.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "http/http_context.h"

namespace encore {

class Connection;

// The server's thread only; stop() comes last. Borrows its arguments.
class ConnectionSet {
 public:
  ConnectionSet(boost::asio::io_context& io, HttpContext& context);
  ConnectionSet(const ConnectionSet&) = delete;
  ConnectionSet& operator=(const ConnectionSet&) = delete;

  // Starts looking at the clock.
  void start();

  // Serves it, or answers 503 if there are too many.
  void add(boost::asio::ip::tcp::socket socket);

  void drain();
  void stop();  // closes all

  // By connections.
  HttpContext& context() { return context_; }
  int64_t now_ms() const;
  std::span<char> read_buffer() { return read_buffer_; }  // one for all: used up at once
  // Its pump() is called once the thread is free: all that is written until then goes out together.
  void pump_later(std::shared_ptr<Connection> connection);
  void remove(const std::shared_ptr<Connection>& connection);

 private:
  using Connections = std::unordered_set<std::shared_ptr<Connection>>;

  std::vector<std::shared_ptr<Connection>> all() const;
  void pump_all();
  void look_at_clock();

  boost::asio::io_context& io_;
  HttpContext& context_;
  boost::asio::steady_timer clock_;
  std::vector<char> read_buffer_;
  Connections served_;
  Connections refused_;  // being told so
  std::vector<std::shared_ptr<Connection>> to_pump_;
};

}  // namespace encore
