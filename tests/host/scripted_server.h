// An HTTP server of a few lines that answers as a test tells it to.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace encore {

struct ScriptedRequest {
  std::string head;  // request line and headers
  std::string path;
  std::string body;
};

// The answer, byte by byte as it goes out: each piece is sent by itself.
struct ScriptedAnswer {
  std::vector<std::string> pieces;
  int32_t pause_ms = 0;  // before each piece but the first
  bool close = false;    // the connection, afterwards
};

using ServerScript = std::function<ScriptedAnswer(const ScriptedRequest& request)>;

// Listens at a free port of 127.0.0.1 for its life. The script is called by a thread for each
// connection, one at a time.
class ScriptedServer {
 public:
  explicit ScriptedServer(ServerScript script);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  int32_t port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int32_t num_connections() const { return num_connections_; }
  int32_t most_at_once() const { return most_at_once_; }  // requests being answered

 private:
  void accept_all();
  void serve(int connection);
  bool answer_one(int connection, std::string& received);

  ServerScript script_;
  int listener_ = -1;
  int32_t port_ = 0;
  std::atomic<int32_t> num_connections_ = 0;
  std::atomic<int32_t> num_now_ = 0;
  std::atomic<int32_t> most_at_once_ = 0;
  std::mutex mutex_;  // guards what follows, and calls of the script
  std::vector<int> connections_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

// A whole answer.
std::string http_answer(const std::string& status, const std::string& body);
// The head of a streamed answer, and each of its events as a chunk of its own.
std::vector<std::string> http_stream(const std::vector<std::string>& events);

}  // namespace encore
