#include "http_client.h"

#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <utility>

namespace encore {
namespace {

constexpr int kPatienceMs = 10'000;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

size_t number(std::string_view text, int base) {
  size_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

}  // namespace

HttpClient::HttpClient(int32_t port, int receive_buffer_bytes, const std::string& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  EXPECT_EQ(getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found), 0);
  socket_ = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_GE(socket_, 0);
  if (receive_buffer_bytes > 0) {
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(receive_buffer_bytes));
  }
  EXPECT_EQ(connect(socket_, found->ai_addr, found->ai_addrlen), 0) << address << ":" << port;
  freeaddrinfo(found);
}

HttpClient::HttpClient(HttpClient&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), buffer_(std::move(other.buffer_)) {}

HttpClient::~HttpClient() { close(); }

bool HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool HttpClient::readable(int wait_ms) const {
  pollfd state{.fd = socket_, .events = POLLIN, .revents = 0};
  return poll(&state, 1, wait_ms) > 0;
}

bool HttpClient::fill() {
  if (!readable(kPatienceMs)) return false;
  std::array<char, 64 << 10> bytes{};
  const ssize_t count = recv(socket_, bytes.data(), bytes.size(), 0);
  if (count <= 0) return false;
  buffer_.append(bytes.data(), static_cast<size_t>(count));
  return true;
}

std::string HttpClient::read_bytes(size_t count) {
  while (buffer_.size() < count && fill()) {
  }
  std::string taken = buffer_.substr(0, count);
  buffer_.erase(0, taken.size());
  return taken;
}

std::string HttpClient::read_until(std::string_view end) {
  size_t at = 0;
  while ((at = buffer_.find(end)) == std::string::npos && fill()) {
  }
  return read_bytes(at == std::string::npos ? buffer_.size() : at + end.size());
}

std::string HttpClient::read_all() {
  while (fill()) {
  }
  return std::exchange(buffer_, {});
}

bool HttpClient::closed_by_server() {
  if (!buffer_.empty() || !readable(kPatienceMs)) return false;
  char byte = 0;
  return recv(socket_, &byte, 1, 0) <= 0;
}

bool HttpClient::reset_by_server() {
  if (!buffer_.empty() || !readable(kPatienceMs)) return false;
  char byte = 0;
  return recv(socket_, &byte, 1, 0) < 0 && errno == ECONNRESET;
}

HttpAnswer HttpClient::read_answer(bool to_head) {
  HttpAnswer answer;
  const std::string head = read_until("\r\n\r\n");
  if (head.size() < 4 || head.substr(head.size() - 4) != "\r\n\r\n") return answer;
  if (head == "HTTP/1.1 100 Continue\r\n\r\n") return read_answer(to_head);
  size_t at = head.find("\r\n");
  answer.status_line = head.substr(0, at);
  while ((at += 2) < head.size() - 2) {
    const size_t end = head.find("\r\n", at);
    const std::string line = head.substr(at, end - at);
    const size_t colon = line.find(": ");
    EXPECT_NE(colon, std::string::npos) << line;
    const auto added = answer.headers.emplace(lower(line.substr(0, colon)), line.substr(colon + 2));
    EXPECT_TRUE(added.second) << "twice: " << line;
    at = end;
  }
  if (to_head || answer.status_line.find(" 204 ") != std::string::npos) {
    answer.whole = true;
  } else if (answer.headers.count("content-length") > 0) {
    const size_t length = number(answer.headers["content-length"], 10);
    answer.body = read_bytes(length);
    answer.whole = answer.body.size() == length;
  } else if (answer.headers.count("transfer-encoding") > 0) {
    while (true) {
      const std::string line = read_until("\r\n");
      const size_t size = number(line, 16);
      const std::string chunk = read_bytes(size + 2);
      if (line.empty() || chunk.size() != size + 2) break;
      answer.body += chunk.substr(0, size);
      if (size > 0) continue;
      answer.whole = chunk == "\r\n";
      break;
    }
  } else {
    answer.body = read_all();
    answer.whole = true;
  }
  return answer;
}

void HttpClient::half_close() { shutdown(socket_, SHUT_WR); }

void HttpClient::close() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

void HttpClient::reset() {
  const linger hard{.l_onoff = 1, .l_linger = 0};
  setsockopt(socket_, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
  close();
}

}  // namespace encore
