#include "serve_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace encore {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLookEvery = std::chrono::milliseconds(5);
constexpr auto kPatience = std::chrono::seconds(60);

}  // namespace

ServeProcess::ServeProcess(const std::vector<std::string>& arguments,
                           const std::vector<std::string>& environment, int open_files) {
  std::array<int, 2> err{};
  EXPECT_EQ(pipe2(err.data(), O_CLOEXEC), 0);
  std::vector<char*> argv = {const_cast<char*>("encore"), const_cast<char*>("serve")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(err[1], STDERR_FILENO);
    for (const std::string& entry : environment) {
      const size_t equals = entry.find('=');
      setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
    }
    const auto files = static_cast<rlim_t>(open_files);
    const rlimit limit = {.rlim_cur = files, .rlim_max = files};
    if (open_files > 0) setrlimit(RLIMIT_NOFILE, &limit);
    execv(ENCORE_BINARY, argv.data());
    _exit(127);
  }
  ::close(err[1]);
  stderr_ = err[0];
  reader_ = std::thread([this] { read_log(); });
}

ServeProcess::~ServeProcess() {
  if (!wait(0)) {
    send_signal(SIGKILL);
    wait(10);
  }
  reader_.join();
  ::close(stderr_);
}

void ServeProcess::read_log() {
  std::array<char, 4096> bytes{};
  for (;;) {
    const ssize_t count = read(stderr_, bytes.data(), bytes.size());
    const std::lock_guard lock(mutex_);
    if (count <= 0) {
      log_ended_ = true;
      return;
    }
    log_.append(bytes.data(), static_cast<size_t>(count));
  }
}

std::string ServeProcess::log() {
  const std::lock_guard lock(mutex_);
  return log_;
}

bool ServeProcess::wait_for_line(const std::string& text) {
  const Clock::time_point until = Clock::now() + kPatience;
  while (Clock::now() < until) {
    {
      const std::lock_guard lock(mutex_);
      const size_t at = log_.find(text);
      if (at != std::string::npos && log_.find('\n', at) != std::string::npos) return true;
      if (log_ended_) return false;
    }
    std::this_thread::sleep_for(kLookEvery);
  }
  return false;
}

int32_t ServeProcess::port() {
  const std::string text = log();
  const std::string before = "http://127.0.0.1:";
  const size_t at = text.find(before);
  return at == std::string::npos ? -1 : std::atoi(text.c_str() + at + before.size());
}

void ServeProcess::send_signal(int number) const { kill(pid_, number); }

std::optional<int> ServeProcess::wait(double seconds) {
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  while (!exit_code_) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    } else if (Clock::now() >= until) {
      return {};
    } else {
      std::this_thread::sleep_for(kLookEvery);
    }
  }
  return exit_code_;
}

double ServeProcess::cpu_seconds() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::string http_request(const std::string& path, const std::string& body,
                         const std::string& more_headers) {
  std::string text = body.empty() ? "GET " : "POST ";
  text.append(path).append(" HTTP/1.1\r\nHost: test\r\n").append(more_headers);
  if (!body.empty()) {
    text.append("Content-Type: application/json\r\nContent-Length: ");
    text.append(std::to_string(body.size())).append("\r\n");
  }
  return text.append("\r\n").append(body);
}

HttpAnswer ask(int32_t port, const std::string& path, const nlohmann::json& body) {
  HttpClient client(port);
  client.send(http_request(path, body.is_null() ? "" : body.dump()));
  return client.read_answer();
}

double metric(int32_t port, const std::string& name) {
  std::string text = "\n";
  text.append(ask(port, "/metrics").body);
  std::string series = "\nencore:";
  const size_t at = text.find(series.append(name));
  if (at == std::string::npos) return -1;
  const std::string line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  return std::atof(line.c_str() + line.rfind(' '));
}

}  // namespace encore
