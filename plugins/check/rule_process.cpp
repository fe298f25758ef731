#include "rule_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

#include "outcome_text.h"

namespace encore::check {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxOutcomeBytes = size_t{1} << 20;
constexpr size_t kMaxNoiseBytes = 2000;
constexpr int kPollMs = 50;

struct Pipe {
  int reader = -1;
  int writer = -1;

  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
    reader = ends[0];
    writer = ends[1];
  }
  ~Pipe() {
    close_end(&reader);
    close_end(&writer);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  static void close_end(int* end) {
    if (*end >= 0) ::close(*end);
    *end = -1;
  }
};

// Takes what there is to read; closes the end when there will be no more.
void drain(int* reader, std::string* text) {
  std::array<char, 4096> buffer{};
  const ssize_t got = ::read(*reader, buffer.data(), buffer.size());
  if (got > 0) {
    text->append(buffer.data(), static_cast<size_t>(got));
  } else if (got == 0 || errno != EINTR) {
    Pipe::close_end(reader);
  }
}

// Starts the process in a group of its own, with both of its outputs in `noise`.
int start(const std::string& program, const std::vector<std::string>& arguments, const Pipe& result,
          const Pipe& noise, pid_t* child) {
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, noise.writer, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, noise.writer, STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, result.writer, kOutcomeDescriptor);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  const int error =
      ::posix_spawn(child, program.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

struct Ending {
  bool timed_out = false;
  int status = 0;  // as waitpid() gives it
  std::string result;
  std::string noise;
};

// Reads both pipes and waits for the process, which is killed with its group at `deadline`.
Ending attend(pid_t child, Pipe* result, Pipe* noise, Clock::time_point deadline) {
  Ending ending;
  // Readable when the process ends; where the kernel has none, the poll's limit has to do.
  int process = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  bool ended = false;
  while (!ended) {
    std::array<pollfd, 3> polled = {
        {{result->reader, POLLIN, 0}, {noise->reader, POLLIN, 0}, {process, POLLIN, 0}}};
    ::poll(polled.data(), polled.size(), kPollMs);
    if (polled[0].revents != 0) drain(&result->reader, &ending.result);
    if (polled[1].revents != 0) drain(&noise->reader, &ending.noise);
    if (ending.noise.size() > 2 * kMaxNoiseBytes) {
      ending.noise.erase(0, ending.noise.size() - kMaxNoiseBytes);
    }
    ended = ::waitpid(child, &ending.status, WNOHANG) == child;
    const bool too_late = Clock::now() >= deadline || ending.result.size() > kMaxOutcomeBytes;
    if (!ended && too_late) {
      ending.timed_out = true;
      ::kill(-child, SIGKILL);
      while (::waitpid(child, &ending.status, 0) < 0 && errno == EINTR) continue;
      ended = true;
    }
  }
  Pipe::close_end(&process);
  // What is still in the pipes; a process that it left behind may hold them open for ever.
  for (auto& [pipe, text] : {std::pair(result, &ending.result), std::pair(noise, &ending.noise)}) {
    while (pipe->reader >= 0) {
      pollfd polled = {pipe->reader, POLLIN, 0};
      if (::poll(&polled, 1, 0) <= 0) break;
      drain(&pipe->reader, text);
    }
  }
  ::kill(-child, SIGKILL);
  return ending;
}

std::string tail(const std::string& noise) {
  if (noise.empty()) return "";
  const size_t begin = noise.size() > kMaxNoiseBytes ? noise.size() - kMaxNoiseBytes : 0;
  return "; it wrote last: " + noise.substr(begin);
}

Outcome judge(const Ending& ending, double limit_s) {
  if (ending.timed_out) {
    return fail("did not end within " + std::to_string(static_cast<int64_t>(limit_s)) +
                " s and was killed" + tail(ending.noise));
  }
  if (WIFSIGNALED(ending.status)) {
    const int signal = WTERMSIG(ending.status);
    const char* name = ::sigabbrev_np(signal);
    return fail("the process crashed with SIG" + std::string(name != nullptr ? name : "?") + " (" +
                ::strsignal(signal) + ")" + tail(ending.noise));
  }
  if (ending.result.empty()) {
    return fail("the process exited with code " + std::to_string(WEXITSTATUS(ending.status)) +
                " in the middle of the rule; a plugin must not end the process" +
                tail(ending.noise));
  }
  Result<Outcome> outcome = outcome_from_text(ending.result);
  if (!outcome.ok()) return fail("its outcome cannot be read: " + outcome.status().message());
  return *std::move(outcome);
}

Outcome run_guarded(const Rule& rule, const CheckContext& context) {
  try {
    return rule.run(context);
  } catch (const std::exception& error) {
    return fail(std::string("an exception ended the rule: ") + error.what());
  } catch (...) {
    return fail("an exception of unknown type ended the rule");
  }
}

}  // namespace

RuleResult run_rule_in_child(const Rule& rule, const std::string& program,
                             const std::vector<std::string>& arguments, double time_factor) {
  const Clock::time_point begin = Clock::now();
  const double limit_s = rule.timeout_s * time_factor;
  RuleResult done{&rule, {}, 0.0};
  Pipe result;
  Pipe noise;
  pid_t child = -1;
  const int error = start(program, arguments, result, noise, &child);
  Pipe::close_end(&result.writer);
  Pipe::close_end(&noise.writer);
  if (error != 0) {
    done.outcome = fail("no process could be started for it: " + std::string(std::strerror(error)));
    return done;
  }
  const auto limit =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_s));
  done.outcome = judge(attend(child, &result, &noise, begin + limit), limit_s);
  done.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return done;
}

void run_rule_here(const Rule& rule, const CheckContext& context) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // an interrupted run leaves nothing behind
  ::fcntl(kOutcomeDescriptor, F_SETFD, FD_CLOEXEC);
  const std::string text = outcome_to_text(run_guarded(rule, context));
  size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t put = ::write(kOutcomeDescriptor, text.data() + sent, text.size() - sent);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) std::_Exit(EXIT_FAILURE);
    sent += static_cast<size_t>(put);
  }
  std::_Exit(EXIT_SUCCESS);
}

}  // namespace encore::check
