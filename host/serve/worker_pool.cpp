#include "serve/worker_pool.h"

#include <utility>

namespace encore {

WorkerPool::WorkerPool(int32_t num_threads) {
  threads_.reserve(static_cast<size_t>(num_threads));
  for (int32_t i = 0; i < num_threads; ++i) threads_.emplace_back([this] { work(); });
}

WorkerPool::~WorkerPool() {
  stop();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::run(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void WorkerPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
}

bool WorkerPool::await_end(std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(mutex_);
  return ended_.wait_until(lock, until, [this] { return num_working_ == 0; });
}

void WorkerPool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    ++num_working_;
    lock.unlock();
    job();
    job = nullptr;  // what it holds is let go without the lock
    lock.lock();
    if (--num_working_ == 0) ended_.notify_all();
  }
}

}  // namespace encore
