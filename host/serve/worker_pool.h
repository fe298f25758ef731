// A few threads for work that must hold up neither the server's thread nor the engine's.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace encore {

// Jobs start in order. run() by any thread; the destructor finishes the jobs under way and drops
// the others.
class WorkerPool {
 public:
  explicit WorkerPool(int32_t num_threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // `job` must not throw. Who calls this limits how many there are.
  void run(std::function<void()> job);

  // Drops the jobs that have not begun, and those to come.
  void stop();
  // After stop(): waits for the jobs under way; false if one goes on at `until`.
  bool await_end(std::chrono::steady_clock::time_point until);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable ended_;
  std::deque<std::function<void()>> jobs_;
  int32_t num_working_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace encore
