#include "scripted_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <utility>

namespace encore {
namespace {

bool send_all(int connection, const std::string& data) {
  size_t sent = 0;
  while (sent < data.size()) {
    const ssize_t n = ::send(connection, data.data() + sent, data.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent += static_cast<size_t>(n);
  }
  return true;
}

bool receive_more(int connection, std::string& received) {
  std::array<char, 4096> buffer{};
  const ssize_t n = ::recv(connection, buffer.data(), buffer.size(), 0);
  if (n <= 0) return false;
  received.append(buffer.data(), static_cast<size_t>(n));
  return true;
}

}  // namespace

ScriptedServer::ScriptedServer(ServerScript script) : script_(std::move(script)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_, generic, size) != 0 || ::listen(listener_, 128) != 0 ||
      ::getsockname(listener_, generic, &size) != 0) {
    throw std::runtime_error("no port of 127.0.0.1 can be listened at");
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

ScriptedServer::~ScriptedServer() {
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const int connection : connections_) ::shutdown(connection, SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
  for (const int connection : connections_) ::close(connection);
  ::close(listener_);
}

void ScriptedServer::accept_all() {
  while (true) {
    const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) return;
    ++num_connections_;
    const std::lock_guard lock(mutex_);
    connections_.push_back(connection);
    threads_.emplace_back([this, connection] { serve(connection); });
  }
}

void ScriptedServer::serve(int connection) {
  std::string received;
  while (answer_one(connection, received)) {
  }
  ::shutdown(connection, SHUT_RDWR);
}

bool ScriptedServer::answer_one(int connection, std::string& received) {
  size_t head_end = std::string::npos;
  while ((head_end = received.find("\r\n\r\n")) == std::string::npos) {
    if (!receive_more(connection, received)) return false;
  }
  ScriptedRequest request;
  request.head = received.substr(0, head_end + 2);
  const size_t path = request.head.find(' ') + 1;
  request.path = request.head.substr(path, request.head.find(' ', path) - path);
  const size_t length_at = request.head.find("Content-Length: ");
  const size_t length =
      length_at == std::string::npos ? 0 : std::stoul(request.head.substr(length_at + 16));
  while (received.size() < head_end + 4 + length) {
    if (!receive_more(connection, received)) return false;
  }
  request.body = received.substr(head_end + 4, length);
  received.erase(0, head_end + 4 + length);

  const int32_t now = ++num_now_;
  int32_t most = most_at_once_;
  while (now > most && !most_at_once_.compare_exchange_weak(most, now)) {
  }
  ScriptedAnswer answer;
  {
    const std::lock_guard lock(mutex_);
    answer = script_(request);
  }
  bool sent = true;
  for (size_t i = 0; i < answer.pieces.size(); ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(answer.pause_ms));
    // The client may send its next request as soon as it has the last piece.
    if (i + 1 == answer.pieces.size()) --num_now_;
    sent = sent && send_all(connection, answer.pieces[i]);
  }
  if (answer.pieces.empty()) --num_now_;
  return sent && !answer.close;
}

std::string http_answer(const std::string& status, const std::string& body) {
  return "HTTP/1.1 " + status +
         "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

std::vector<std::string> http_stream(const std::vector<std::string>& events) {
  std::vector<std::string> pieces = {
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"};
  for (const std::string& event : events) {
    const std::string data = "data: " + event + "\n\n";
    std::array<char, 32> size{};
    std::snprintf(size.data(), size.size(), "%zx\r\n", data.size());
    pieces.push_back(size.data() + data + "\r\n");
  }
  pieces.emplace_back("0\r\n\r\n");
  return pieces;
}

}  // namespace encore
