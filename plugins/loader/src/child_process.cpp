#include "child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string_view>

#include "encore/sdk/abi_text.h"

extern char** environ;

namespace encore {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kResultDescriptor = 3;
constexpr int kFirstFreeDescriptor = 10;  // beyond all that the child's are copied to
constexpr size_t kMaxResultBytes = 65536;
constexpr size_t kMaxNoiseBytes = 2048;
constexpr int kTickMs = 10;            // how late the end of a child may be seen
constexpr int64_t kKillWaitMs = 5000;  // for a killed process that a driver holds on to

// One direction: the child writes, this process reads and never waits.
class Pipe {
 public:
  Pipe() {
    std::array<int, 2> ends = {-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
    read_end_ = ::fcntl(ends[0], F_DUPFD_CLOEXEC, kFirstFreeDescriptor);
    write_end_ = ::fcntl(ends[1], F_DUPFD_CLOEXEC, kFirstFreeDescriptor);
    ::close(ends[0]);
    ::close(ends[1]);
    if (read_end_ >= 0) ::fcntl(read_end_, F_SETFL, O_NONBLOCK);
  }
  ~Pipe() {
    close_write_end();
    close_read_end();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  bool is_open() const { return read_end_ >= 0 && write_end_ >= 0; }
  int read_end() const { return read_end_; }
  int write_end() const { return write_end_; }

  void close_write_end() {
    if (write_end_ >= 0) ::close(write_end_);
    write_end_ = -1;
  }

  // Appends what is there, `most` bytes at most; closes at the end of the stream.
  void drain(std::string* bytes, size_t most) {
    std::array<char, 4096> buffer;
    size_t done = 0;
    while (read_end_ >= 0 && done < most) {
      const ssize_t got = ::read(read_end_, buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) {
        close_read_end();
        return;
      }
      bytes->append(buffer.data(), static_cast<size_t>(got));
      done += static_cast<size_t>(got);
    }
  }

 private:
  void close_read_end() {
    if (read_end_ >= 0) ::close(read_end_);
    read_end_ = -1;
  }

  int read_end_ = -1;
  int write_end_ = -1;
};

// What posix_spawn is told; freed whatever happens.
class SpawnSettings {
 public:
  SpawnSettings(const Pipe& noise, const Pipe& result) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions_, noise.write_end(), STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, noise.write_end(), STDERR_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, result.write_end(), kResultDescriptor);
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, kResultDescriptor + 1);
    ::posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::sigdelset(&all, SIGKILL);
    ::sigdelset(&all, SIGSTOP);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  // 0, or errno.
  int start(const ChildCommand& command, pid_t* child) {
    std::vector<char*> arguments;
    arguments.push_back(const_cast<char*>(command.program.c_str()));
    for (const std::string& argument : command.arguments) {
      arguments.push_back(const_cast<char*>(argument.c_str()));
    }
    arguments.push_back(nullptr);
    return ::posix_spawn(child, command.program.c_str(), &actions_, &attributes_, arguments.data(),
                         environ);
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

enum class Seen : int32_t { kRunning, kEnded, kGone };

// Without reaping: the process group's number stays taken until then.
Seen look_at(pid_t child, siginfo_t* info) {
  info->si_pid = 0;
  while (::waitid(P_PID, static_cast<id_t>(child), info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    if (errno != EINTR) return Seen::kGone;
  }
  return info->si_pid == child ? Seen::kEnded : Seen::kRunning;
}

int64_t elapsed_ms(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count();
}

// The pipes of a running child, read as it writes.
class Streams {
 public:
  bool are_open() const { return noise.is_open() && result.is_open(); }

  // Waits for something to read, a tick at most, and reads it.
  void wait_and_read() {
    std::array<pollfd, 2> waited = {pollfd{noise.read_end(), POLLIN, 0},
                                    pollfd{result.read_end(), POLLIN, 0}};
    ::poll(waited.data(), waited.size(), kTickMs);
    read();
  }

  // A child that never stops printing must not keep this from looking at the clock.
  void read() {
    noise.drain(&noise_text, size_t{1} << 20);
    if (noise_text.size() > kMaxNoiseBytes) noise_text.erase(0, noise_text.size() - kMaxNoiseBytes);
    result.drain(&result_bytes, kMaxResultBytes);
    if (result_bytes.size() > kMaxResultBytes) result_bytes.resize(kMaxResultBytes);
  }

  Pipe noise;
  Pipe result;
  std::string noise_text;
  std::string result_bytes;
};

// Text as it may be shown in a log: no control characters.
std::string printable(std::string_view noise) {
  std::string text = sdk::valid_utf8(noise);
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n') || byte == 0x7f) c = ' ';
  }
  const size_t end = text.find_last_not_of(" \n");
  return end == std::string::npos ? std::string() : text.substr(0, end + 1);
}

void wait_for_end(pid_t child, Streams& streams, int64_t limit_ms, Seen* seen, siginfo_t* info) {
  const Clock::time_point start = Clock::now();
  while ((*seen = look_at(child, info)) == Seen::kRunning && elapsed_ms(start) < limit_ms) {
    streams.wait_and_read();
  }
}

}  // namespace

ChildEnd run_child(const ChildCommand& command) {
  ChildEnd end;
  Streams streams;
  if (!streams.are_open()) {
    end.number = EMFILE;
    return end;
  }
  pid_t child = 0;
  end.number = SpawnSettings(streams.noise, streams.result).start(command, &child);
  if (end.number != 0) return end;
  streams.noise.close_write_end();
  streams.result.close_write_end();
  Seen seen = Seen::kRunning;
  siginfo_t info = {};
  wait_for_end(child, streams, command.timeout_ms, &seen, &info);
  const bool timed_out = seen == Seen::kRunning;
  ::kill(-child, SIGKILL);  // the child, or what it has left behind
  if (timed_out) wait_for_end(child, streams, kKillWaitMs, &seen, &info);
  streams.read();
  end.result = std::move(streams.result_bytes);
  end.noise = printable(streams.noise_text);
  if (seen == Seen::kEnded) ::waitpid(child, nullptr, 0);
  if (timed_out) {
    end.how = ChildEnd::How::kTimedOut;
  } else if (seen == Seen::kGone) {
    end.how = ChildEnd::How::kUnknown;
  } else {
    end.how = info.si_code == CLD_EXITED ? ChildEnd::How::kExited : ChildEnd::How::kSignalled;
    end.number = info.si_status;
  }
  return end;
}

}  // namespace encore
