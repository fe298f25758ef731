#include "process_probe.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cfenv>
#include <chrono>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace encore::check {
namespace {

int64_t count_entries(const char* folder) {
  std::error_code error;
  int64_t count = 0;
  for (auto it = std::filesystem::directory_iterator(folder, error);
       !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    ++count;
  }
  return count;
}

std::string hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string text_of_signals(const sigset_t& set) {
  std::string text;
  for (int signal = 1; signal < NSIG; ++signal) {
    if (sigismember(&set, signal) == 1) text.append(" ").append(std::to_string(signal));
  }
  return text.empty() ? " none" : text;
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(signal);
}

}  // namespace

int64_t count_threads() { return count_entries("/proc/self/task"); }

int64_t count_descriptors() { return count_entries("/proc/self/fd"); }

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  file >> total_pages >> resident_pages;
  return resident_pages * ::sysconf(_SC_PAGESIZE);
}

int64_t settled_threads(int64_t expected) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  int64_t count = count_threads();
  while (count > expected && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    count = count_threads();
  }
  return count;
}

ProcessState signal_state() {
  ProcessState state;
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action = {};
    if (::sigaction(signal, nullptr, &action) != 0) continue;
    state["the handler of " + signal_name(signal)] =
        hex(reinterpret_cast<uintptr_t>(action.sa_handler)) + " flags " +
        hex(static_cast<uint64_t>(action.sa_flags));
  }
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  state["the signal mask"] = text_of_signals(mask);
  return state;
}

ProcessState floating_point_state() {
  ProcessState state;
  state["the rounding mode"] = std::to_string(std::fegetround());
#if defined(__x86_64__)
  constexpr unsigned kStickyFlags = 0x3F;  // say what has happened, not what will
  state["MXCSR"] = hex(_mm_getcsr() & ~kStickyFlags);
  uint16_t control = 0;
  asm volatile("fnstcw %0" : "=m"(control));
  state["the x87 control word"] = hex(control);
#endif
  return state;
}

ProcessState affinity_state() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::string text;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) text.append(" ").append(std::to_string(cpu));
    }
  }
  return {{"the calling thread's processors", text},
          {"the calling thread's scheduling policy", std::to_string(::sched_getscheduler(0))}};
}

ProcessState environment_state() {
  ProcessState state;
  state["the locale"] = std::setlocale(LC_ALL, nullptr);
  std::error_code error;
  state["the working directory"] = std::filesystem::current_path(error).string();
  const mode_t mask = ::umask(0);
  ::umask(mask);
  char text[8];
  std::snprintf(text, sizeof(text), "%03o", static_cast<unsigned>(mask));
  state["umask"] = text;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string entry = *variable;
    const size_t equals = entry.find('=');
    state["variable " + entry.substr(0, equals)] =
        equals == std::string::npos ? "" : entry.substr(equals + 1);
  }
  static constexpr struct {
    int resource;
    const char* name;
  } kLimits[] = {{RLIMIT_NOFILE, "descriptors"}, {RLIMIT_CORE, "core"},
                 {RLIMIT_STACK, "stack"},        {RLIMIT_AS, "address space"},
                 {RLIMIT_NPROC, "threads"},      {RLIMIT_MEMLOCK, "locked memory"}};
  for (const auto& limit : kLimits) {
    struct rlimit value = {};
    if (::getrlimit(static_cast<__rlimit_resource>(limit.resource), &value) == 0) {
      state[std::string("the limit of ") + limit.name] = std::to_string(value.rlim_cur);
    }
  }
  return state;
}

std::string difference(const ProcessState& before, const ProcessState& after) {
  std::string text;
  const auto add = [&text](const std::string& what) {
    if (!text.empty()) text += "; ";
    text += what;
  };
  for (const auto& [name, value] : before) {
    const auto found = after.find(name);
    if (found == after.end()) {
      add(name + " is gone");
    } else if (found->second != value) {
      add(std::string(name).append(" was ").append(value).append(" and is ").append(found->second));
    }
  }
  for (const auto& [name, value] : after) {
    if (!before.contains(name)) add(std::string(name).append(" is new: ").append(value));
  }
  return text;
}

}  // namespace encore::check
