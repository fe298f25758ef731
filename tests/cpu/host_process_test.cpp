// The plugin is a guest in its host's process: it leaves the process as it found it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <immintrin.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>

#include <array>
#include <clocale>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "plugin_test_support.h"

namespace encore::cpu {
namespace {

// What a library can change behind its host's back.
struct ProcessState {
  std::vector<std::string> signals;  // disposition, flags and mask of each
  std::string blocked;
  std::string locale;
  std::string folder;
  mode_t file_mask = 0;
  uint32_t mxcsr_control = 0;  // without the flags that arithmetic raises
  uint16_t x87_control = 0;
  std::string affinity;  // of this thread

  bool operator==(const ProcessState&) const = default;
};

template <typename T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

ProcessState read_state() {
  ProcessState state;
  for (int signal = 1; signal < 65; ++signal) {
    struct sigaction action;
    std::memset(&action, 0, sizeof(action));
    const int result = sigaction(signal, nullptr, &action);
    std::ostringstream text;
    text << result << ' ' << reinterpret_cast<void*>(action.sa_handler) << ' ' << action.sa_flags;
    state.signals.push_back(text.str());
  }
  sigset_t blocked;
  sigemptyset(&blocked);
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  for (int signal = 1; signal < 65; ++signal) {
    state.blocked += sigismember(&blocked, signal) == 1 ? '1' : '0';
  }
  state.locale = std::setlocale(LC_ALL, nullptr);
  state.folder = std::filesystem::current_path();
  state.file_mask = umask(022);
  umask(state.file_mask);
  state.mxcsr_control = _mm_getcsr() & 0xFFC0U;
  __asm__ volatile("fnstcw %0" : "=m"(state.x87_control));
  cpu_set_t affinity;
  CPU_ZERO(&affinity);
  sched_getaffinity(0, sizeof(affinity), &affinity);
  state.affinity = bytes_of(affinity);
  return state;
}

// ThreadSanitizer starts a thread of its own with the first that the program starts.
#if defined(__SANITIZE_THREAD__)
constexpr bool kHasForeignThread = true;
#else
constexpr bool kHasForeignThread = false;
#endif

int64_t entries_of(const char* folder) {
  int64_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  file >> total_pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

TEST(CpuHostProcess, StateIsLeftAsItWas) {
  const auto backend = load_best_variant();
  ASSERT_NE(backend, nullptr);
  // Not what a process starts with, so that a reset shows too.
  _mm_setcsr(_mm_getcsr() | 0x8000U);  // denormals become zero
  signal(SIGUSR1, SIG_IGN);
  const mode_t old_mask = umask(077);
  const ProcessState before = read_state();
  ASSERT_EQ(before.mxcsr_control, 0x9F80U);

  ASSERT_TRUE(backend->init(options("3")).ok());
  EXPECT_EQ(read_state(), before) << "after init";
  EXPECT_TRUE(backend->selftest(0).ok());
  EXPECT_EQ(read_state(), before) << "after selftest";
  backend->shutdown();
  EXPECT_EQ(read_state(), before) << "after shutdown";

  _mm_setcsr(_mm_getcsr() & ~0x8000U);
  signal(SIGUSR1, SIG_DFL);
  umask(old_mask);
}

TEST(CpuHostProcess, AHundredRoundsLeaveNothingBehind) {
  if (kHasForeignThread) GTEST_SKIP() << "ThreadSanitizer has a thread of its own";
  const auto backend = load_best_variant();
  ASSERT_NE(backend, nullptr);
  const int64_t threads_at_first = entries_of("/proc/self/task");
  const auto rounds = [&](int count) {
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(backend->init(options("2")).ok());
      // Slow where threads share a core.
      if (i % 10 == 0) {
        ASSERT_TRUE(backend->selftest(0).ok());
      }
      backend->shutdown();
    }
  };
  rounds(20);  // the allocator keeps what the first rounds freed
  const int64_t descriptors = entries_of("/proc/self/fd");
  const int64_t bytes = resident_bytes();
  rounds(100);
  EXPECT_EQ(entries_of("/proc/self/task"), threads_at_first);
  EXPECT_EQ(entries_of("/proc/self/fd"), descriptors);
  if (kSanitized) return;  // it keeps what was freed
  // A leak of one thread's stack or of one self-test's weights a round would be over 10 MB.
  EXPECT_LT(resident_bytes() - bytes, int64_t{2} << 20);
}

TEST(CpuHostProcess, ThreadsEndWithShutdown) {
  if (kHasForeignThread) GTEST_SKIP() << "ThreadSanitizer has a thread of its own";
  const auto backend = load_best_variant();
  ASSERT_NE(backend, nullptr);
  const int64_t before = entries_of("/proc/self/task");
  ASSERT_TRUE(backend->init(options("4")).ok());
  EXPECT_EQ(entries_of("/proc/self/task"), before + 3);  // the caller is the fourth
  backend->shutdown();
  EXPECT_EQ(entries_of("/proc/self/task"), before);
}

// The processors that thread `task` of this process may use.
std::string allowed_of(const std::filesystem::path& task) {
  std::ifstream file(task / "status");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("Cpus_allowed_list:")) return line.substr(line.find('\t') + 1);
  }
  return "";
}

// Limits this thread to the last processor that it may use; gives its number.
int32_t use_last_processor() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return -1;
  int32_t last = -1;
  for (int32_t i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(static_cast<size_t>(i), &mask)) last = i;
  }
  CPU_ZERO(&mask);
  CPU_SET(static_cast<size_t>(last), &mask);
  return sched_setaffinity(0, sizeof(mask), &mask) == 0 ? last : -1;
}

// Whether the process has asked for memory of certain nodes: then a thread's memory may be far.
bool has_memory_policy() {
  std::ifstream file("/proc/self/numa_maps");  // "ADDRESS POLICY ..."; not on every kernel
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string address;
    std::string policy;
    words >> address >> policy;
    if (policy != "default" && policy != "local") return true;
  }
  return false;
}

TEST(CpuHostProcess, ThreadsAndMemoryStayInTheProcessorsAllowed) {
  if (kHasForeignThread) GTEST_SKIP() << "ThreadSanitizer has a thread of its own";
  const auto backend = load_best_variant();
  ASSERT_NE(backend, nullptr);
  const int code = in_child([&]() {
    const int32_t processor = use_last_processor();
    if (processor < 0) return 1;
    if (!backend->init(options("auto")).ok()) return 2;
    const auto info = backend->device_info(0);
    if (!info.ok() || info->name != "1 threads") return 3;
    backend->shutdown();
    if (!backend->init(options("4")).ok() || !backend->selftest(0).ok()) return 4;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      if (allowed_of(task.path()) != std::to_string(processor)) return 5;
    }
    return has_memory_policy() ? 6 : 0;
  });
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace encore::cpu
