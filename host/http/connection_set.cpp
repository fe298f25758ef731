#include "http/connection_set.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

#include "http/connection.h"

namespace encore {
namespace {

namespace asio = boost::asio;

constexpr size_t kReadBufferBytes = 64 << 10;

}  // namespace

ConnectionSet::ConnectionSet(asio::io_context& io, HttpContext& context)
    : io_(io), context_(context), clock_(io), read_buffer_(kReadBufferBytes) {}

int64_t ConnectionSet::now_ms() const {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  return duration_cast<milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void ConnectionSet::start() { look_at_clock(); }

void ConnectionSet::add(asio::ip::tcp::socket socket) {
  if (static_cast<int64_t>(served_.size()) < context_.room.connections) {
    context_.counters.connections_accepted.fetch_add(1, std::memory_order_relaxed);
    context_.counters.connections_open.fetch_add(1, std::memory_order_relaxed);
    const auto connection = std::make_shared<Connection>(std::move(socket), *this, true);
    served_.insert(connection);
    return connection->start();
  }
  context_.counters.connections_refused.fetch_add(1, std::memory_order_relaxed);
  if (static_cast<int64_t>(refused_.size()) >= context_.room.refused_at_once) return;
  const auto connection = std::make_shared<Connection>(std::move(socket), *this, false);
  refused_.insert(connection);
  connection->refuse();
}

void ConnectionSet::remove(const std::shared_ptr<Connection>& connection) {
  if (!connection->counted()) {
    refused_.erase(connection);
    return;
  }
  served_.erase(connection);
  context_.counters.connections_open.fetch_sub(1, std::memory_order_relaxed);
}

void ConnectionSet::pump_later(std::shared_ptr<Connection> connection) {
  to_pump_.push_back(std::move(connection));
  if (to_pump_.size() == 1) asio::post(io_, [this] { pump_all(); });
}

void ConnectionSet::pump_all() {
  for (const auto& connection : std::exchange(to_pump_, {})) connection->pump();
}

std::vector<std::shared_ptr<Connection>> ConnectionSet::all() const {
  std::vector<std::shared_ptr<Connection>> connections(served_.begin(), served_.end());
  connections.insert(connections.end(), refused_.begin(), refused_.end());
  return connections;
}

// One timer for all: limits are kept to within a quarter of the idle time, or a second.
void ConnectionSet::look_at_clock() {
  const int64_t period_ms = std::clamp<int64_t>(context_.options.idle_timeout_ms / 4, 5, 1000);
  clock_.expires_after(std::chrono::milliseconds(period_ms));
  clock_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    for (const auto& connection : all()) connection->check_time();
    look_at_clock();
  });
}

void ConnectionSet::drain() {
  for (const auto& connection : all()) connection->drain();
}

void ConnectionSet::stop() {
  clock_.cancel();
  for (const auto& connection : all()) connection->stop();
  to_pump_.clear();
}

}  // namespace encore
