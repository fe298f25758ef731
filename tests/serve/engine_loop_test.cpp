// The loop: sleeps without work, wakes with it, ends when told.
#include "serve/engine_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <chrono>
#include <ctime>
#include <map>
#include <thread>

#include "../engine/engine_rig.h"

namespace encore::fake {
namespace {

using ::testing::HasSubstr;

// A loop on a thread of its own, and the ends that it reported.
class RunningLoop {
 public:
  RunningLoop()
      : loop_(*rig.engine, [this](std::vector<RequestEvent>& events) { take(events); }),
        thread_([this] { status = loop_.run(); }) {}
  ~RunningLoop() {
    if (thread_.joinable()) stop();
  }

  EngineLoop& loop() { return loop_; }
  void stop() {
    loop_.stop();
    thread_.join();
  }
  void join() { thread_.join(); }

  size_t num_finished() {
    const std::lock_guard lock(mutex_);
    return finishes_.size();
  }
  FinishReason finish(RequestId id) {
    const std::lock_guard lock(mutex_);
    return finishes_.at(id);
  }
  void await_finished(size_t count) {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return finishes_.size() >= count; });
  }
  // CPU time of the loop's thread.
  double cpu_seconds() {
    clockid_t clock{};
    timespec time{};
    EXPECT_EQ(pthread_getcpuclockid(thread_.native_handle(), &clock), 0);
    EXPECT_EQ(clock_gettime(clock, &time), 0);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  Rig rig;
  Status status;

 private:
  void take(std::vector<RequestEvent>& events) {
    {
      const std::lock_guard lock(mutex_);
      for (const RequestEvent& event : events) {
        if (event.finished()) finishes_[event.request] = event.finish;
      }
    }
    finished_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable finished_;
  std::map<RequestId, FinishReason> finishes_;
  EngineLoop loop_;
  std::thread thread_;
};

RequestOptions request(int32_t salt, int32_t max_tokens) {
  RequestOptions options;
  options.prompt = make_prompt(5, salt);
  options.max_tokens = max_tokens;
  options.ignore_eos = true;
  return options;
}

TEST(EngineLoopTest, ServesWhatSeveralThreadsAdd) {
  RunningLoop running;
  constexpr size_t kThreads = 4;
  constexpr int32_t kEach = 25;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&running, t] {
      for (int32_t i = 0; i < kEach; ++i) {
        const auto ids = running.loop().add(
            {request(static_cast<int32_t>(t) * kEach + i, 1 + i % 5), request(i, 2)});
        ASSERT_TRUE(ids.ok()) << ids.status().to_string();
        ASSERT_EQ(ids->size(), 2U);
        if (i % 3 == 0) running.loop().cancel(ids->back());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  running.await_finished(2 * kThreads * kEach);
  running.stop();
  EXPECT_TRUE(running.status.ok());
  EXPECT_TRUE(running.rig.engine->idle());
  EXPECT_EQ(running.rig.engine->stats().pages_used, 0);
}

TEST(EngineLoopTest, WakesForEveryAddFromSleep) {
  RunningLoop running;
  for (size_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(running.loop().add({request(static_cast<int32_t>(i), 2)}).ok());
    running.await_finished(i + 1);
  }
  EXPECT_EQ(running.num_finished(), 200U);
}

TEST(EngineLoopTest, IdleCostsNoTime) {
  RunningLoop running;
  ASSERT_TRUE(running.loop().add({request(1, 2)}).ok());
  running.await_finished(1);
  const double before = running.cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(running.cpu_seconds() - before, 0.01);
}

TEST(EngineLoopTest, CancelEndsARequestAndTwiceIsNoError) {
  RunningLoop running;
  const auto ids = running.loop().add({request(1, 240), request(2, 3)});
  ASSERT_TRUE(ids.ok());
  running.loop().cancel((*ids)[0]);
  running.await_finished(2);
  running.loop().cancel((*ids)[0]);
  const FinishReason finish = running.finish((*ids)[0]);
  EXPECT_TRUE(finish == FinishReason::kCancelled || finish == FinishReason::kLength);
  EXPECT_EQ(running.finish((*ids)[1]), FinishReason::kLength);
}

TEST(EngineLoopTest, RefusedRequestsAreTheEnginesErrors) {
  RunningLoop running;
  const auto ids = running.loop().add({request(1, 2), RequestOptions()});
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(running.loop().add({request(1, 2)}).ok());
  running.await_finished(1);
}

TEST(EngineLoopTest, StopEndsItWithWorkLeftToo) {
  RunningLoop running;
  ASSERT_TRUE(running.loop().add({request(1, 240)}).ok());
  running.stop();
  EXPECT_TRUE(running.status.ok());
}

TEST(EngineLoopTest, FailedDeviceEndsEveryRequestAndTheLoop) {
  RunningLoop running;
  running.stop();  // so that the device can be touched
  running.rig.device().fail_wait = internal_error("the device is lost");
  std::vector<RequestEvent> ends;
  EngineLoop loop(*running.rig.engine, [&](std::vector<RequestEvent>& events) { ends = events; });
  ASSERT_TRUE(loop.add({request(1, 9), request(2, 9)}).ok());
  EXPECT_THAT(loop.run().message(), HasSubstr("the device is lost"));
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_EQ(ends[0].finish, FinishReason::kError);
  EXPECT_FALSE(loop.add({request(3, 9)}).ok());
}

}  // namespace
}  // namespace encore::fake
