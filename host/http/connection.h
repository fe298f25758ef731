// One client's socket, and the session on it.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <memory>

#include "http/session.h"

namespace encore {

class ConnectionSet;

// The server's thread only. Whoever calls holds a shared pointer: any call may close, and a closed
// connection leaves its set. Pending waits hold one, too.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `counted`: among HttpStats::connections_open. `set` is borrowed.
  Connection(boost::asio::ip::tcp::socket socket, ConnectionSet& set, bool counted);

  void start();
  void refuse();  // answers 503 and closes. REQUIRES: not started.

  // Sends what there is, goes on with what was received, closes if that is due.
  void pump();
  void check_time();
  void drain();
  void stop();

  bool counted() const { return counted_; }

 private:
  void set_options();
  void wait_for_input();
  void wait_for_room();
  void read();
  void send();
  void look_for_end();
  void close();
  void wake();

  boost::asio::ip::tcp::socket socket_;
  ConnectionSet& set_;
  HttpSession session_;
  const bool counted_;
  bool waiting_for_input_ = false;
  bool waiting_for_room_ = false;
  bool busy_ = false;         // pump() is on the stack, or is to be called
  bool half_closed_ = false;  // our end
};

}  // namespace encore
