// A child program: how it ended, what it said, and what it was given.
#include "child_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace encore {
namespace {

ChildEnd run_shell(const std::string& script, int64_t timeout_ms = 120'000) {
  return run_child({.program = "/bin/sh", .arguments = {"-c", script}, .timeout_ms = timeout_ms});
}

// Whether the process ends within a minute. What nobody has reaped counts as ended.
bool ends(long pid) {
  for (int i = 0; i < 6000; ++i) {
    std::ifstream stream("/proc/" + std::to_string(pid) + "/stat");
    std::string number;
    std::string name;
    std::string state;
    if (!(stream >> number >> name >> state) || state == "Z" || state == "X") return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(ChildProcessTest, ExitStatusAndSignalAreTold) {
  ChildEnd end = run_shell("exit 7");
  EXPECT_EQ(end.how, ChildEnd::How::kExited);
  EXPECT_EQ(end.number, 7);
  end = run_shell("kill -ILL $$");
  EXPECT_EQ(end.how, ChildEnd::How::kSignalled);
  EXPECT_EQ(end.number, SIGILL);
}

TEST(ChildProcessTest, ProgramThatCannotRunIsNotStarted) {
  const ChildEnd end = run_child({.program = "/no/such", .arguments = {}, .timeout_ms = 1000});
  EXPECT_EQ(end.how, ChildEnd::How::kNotStarted);
  EXPECT_EQ(end.number, ENOENT);
}

TEST(ChildProcessTest, LimitEndsTheWholeGroup) {
  const ChildEnd end = run_shell("sleep 1000 & echo $! >&3; sleep 1000", 1000);
  EXPECT_EQ(end.how, ChildEnd::How::kTimedOut);
  EXPECT_TRUE(end.result.empty() || ends(std::stol(end.result)));  // empty: not even started
}

TEST(ChildProcessTest, BackgroundProcessIsNotWaitedFor) {
  const ChildEnd end = run_shell("sleep 1000 & exit 3");
  EXPECT_EQ(end.how, ChildEnd::How::kExited);
  EXPECT_EQ(end.number, 3);
}

TEST(ChildProcessTest, ResultAndNoiseArriveApart) {
  const ChildEnd end = run_shell("echo noise; echo loud >&2; printf result >&3");
  EXPECT_EQ(end.result, "result");
  EXPECT_EQ(end.noise, "noise\nloud");
}

TEST(ChildProcessTest, NoiseIsCutToItsEndAndMadeText) {
  const ChildEnd end = run_shell("yes 0123456789 | head -n 100000; printf 'end\\033\\377'");
  EXPECT_LE(end.noise.size(), 2100U);
  EXPECT_THAT(end.noise, testing::EndsWith("0123456789\nend \xEF\xBF\xBD"));
}

TEST(ChildProcessTest, ChildHasFourDescriptorsAndNoInput) {
  const int inherited = ::open("/dev/null", O_RDONLY);  // without O_CLOEXEC, as libraries do
  ASSERT_GE(inherited, 0);
  // The fifth is the listing's own.
  const ChildEnd end = run_shell("ls /proc/self/fd | wc -w >&3; cat >&3");
  ::close(inherited);
  EXPECT_EQ(end.result, "5\n");
}

TEST(ChildProcessTest, SignalsAreAsByDefault) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
  const auto ignored = std::signal(SIGPIPE, SIG_IGN);
  const ChildEnd by_pipe = run_shell("kill -PIPE $$");
  const ChildEnd by_term = run_shell("kill -TERM $$");
  std::signal(SIGPIPE, ignored);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(by_pipe.how, ChildEnd::How::kSignalled);
  EXPECT_EQ(by_pipe.number, SIGPIPE);
  EXPECT_EQ(by_term.how, ChildEnd::How::kSignalled);
  EXPECT_EQ(by_term.number, SIGTERM);
}

TEST(ChildProcessTest, ThreadsRunChildrenAtTheSameTime) {
  std::vector<std::thread> threads;
  std::vector<ChildEnd> ends(8);
  threads.reserve(ends.size());
  for (size_t i = 0; i < ends.size(); ++i) {
    threads.emplace_back([&ends, i] {
      ends[i] = run_shell("printf " + std::to_string(i) + " >&3; exit " + std::to_string(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < ends.size(); ++i) {
    EXPECT_EQ(ends[i].how, ChildEnd::How::kExited) << i;
    EXPECT_EQ(ends[i].number, static_cast<int>(i));
    EXPECT_EQ(ends[i].result, std::to_string(i));
  }
}

}  // namespace
}  // namespace encore
