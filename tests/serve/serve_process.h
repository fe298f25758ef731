// A running `encore serve`, and requests to it over real sockets.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../http/http_client.h"

namespace encore {

// Starts on construction; ends the process, by SIGKILL if need be, on destruction.
class ServeProcess {
 public:
  // `arguments` follow "serve"; `environment` is "NAME=value"; `open_files` > 0 is the hard limit.
  explicit ServeProcess(const std::vector<std::string>& arguments,
                        const std::vector<std::string>& environment = {}, int open_files = 0);
  ~ServeProcess();
  ServeProcess(const ServeProcess&) = delete;
  ServeProcess& operator=(const ServeProcess&) = delete;

  // Until a line of stderr has `text`. False if the process ends first, or after a minute.
  bool wait_for_line(const std::string& text);
  // Until it listens; then port() is known.
  bool wait_until_ready() { return wait_for_line("listening on http://"); }
  // The one in the first address that stderr names.
  int32_t port();

  void send_signal(int number) const;
  // Its exit code, 128 + signal if one ended it; nothing if it still runs after `seconds`.
  std::optional<int> wait(double seconds);

  std::string log();
  pid_t pid() const { return pid_; }
  double cpu_seconds() const;  // user and system time so far

 private:
  void read_log();

  pid_t pid_ = -1;
  int stderr_ = -1;
  std::optional<int> exit_code_;
  std::mutex mutex_;
  std::string log_;
  bool log_ended_ = false;
  std::thread reader_;
};

// A request with this body; GET if it is empty. Keeps the connection open unless `close`.
std::string http_request(const std::string& path, const std::string& body = "",
                         const std::string& more_headers = "");

// The whole exchange on a connection of its own.
HttpAnswer ask(int32_t port, const std::string& path, const nlohmann::json& body = nullptr);

// One value of /metrics, by the series' name without "encore:" and labels; -1 if it is not there.
double metric(int32_t port, const std::string& name);

}  // namespace encore
