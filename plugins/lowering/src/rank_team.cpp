#include "rank_team.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>
#include <utility>

namespace encore::lowering {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

// Longer than an engine needs between the results of a step and the next one.
constexpr int64_t kSpinUs = 100;
constexpr microseconds kPollInterval(20'000);

void pause_once() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Spins until `ready()` or for `spin_us`; gives the last answer.
template <typename Ready>
bool spin(int64_t spin_us, const Ready& ready) {
  if (ready()) return true;
  if (spin_us == 0) return false;
  const Clock::time_point end = Clock::now() + microseconds(spin_us);
  do {
    for (int32_t i = 0; i < 32; ++i) {
      if (ready()) return true;
      pause_once();
    }
  } while (Clock::now() < end);
  return ready();
}

}  // namespace

RankTeam::RankTeam(int32_t size) : size_(size), shared_(std::make_shared<Shared>(size)) {
  // The caller spins too, and every rank may drive threads of its own.
  const bool enough = std::cmp_greater(std::thread::hardware_concurrency(), 2 * size);
  shared_->spin_us = enough ? kSpinUs : 0;
}

Result<std::unique_ptr<RankTeam>> RankTeam::create(int32_t size) {
  std::unique_ptr<RankTeam> team(new RankTeam(size));
  try {
    for (int32_t rank = 0; rank < size; ++rank) {
      team->threads_.emplace_back([shared = team->shared_, rank]() { serve(*shared, rank); });
    }
  } catch (const std::system_error& error) {
    return out_of_memory("cannot start " + std::to_string(size) +
                         " threads, one for each rank: " + error.what());
  }
  return team;
}

RankTeam::~RankTeam() {
  shared_->stopping.store(true, std::memory_order_relaxed);
  shared_->posted.fetch_add(1, std::memory_order_release);
  shared_->posted.notify_all();
  for (std::thread& thread : threads_) {
    if (lost_) {
      thread.detach();  // it may never return
    } else {
      thread.join();
    }
  }
}

bool RankTeam::await_late_ranks(int64_t timeout_us) const {
  const Clock::time_point end = Clock::now() + microseconds(timeout_us);
  while (shared_->num_answered.load() < size_ && Clock::now() < end) {
    std::this_thread::sleep_for(kPollInterval);
  }
  return shared_->num_answered.load() == size_;
}

bool RankTeam::answered(int32_t rank) const {
  return shared_->ranks[static_cast<size_t>(rank)].done.load(std::memory_order_acquire) ==
         shared_->posted.load(std::memory_order_relaxed);
}

uint32_t RankTeam::await_call(const Shared& shared, uint32_t seen) {
  const auto posted = [&]() { return shared.posted.load(std::memory_order_acquire) != seen; };
  if (!spin(shared.spin_us, posted)) shared.posted.wait(seen, std::memory_order_acquire);
  return shared.posted.load(std::memory_order_acquire);
}

void RankTeam::serve(Shared& shared, int32_t rank) {
  Rank& self = shared.ranks[static_cast<size_t>(rank)];
  uint32_t seen = 0;
  while (true) {
    seen = await_call(shared, seen);
    if (shared.stopping.load(std::memory_order_relaxed)) return;
    try {
      self.status = shared.invoke(shared.context, rank);
    } catch (const std::exception& error) {
      self.status = internal_error(std::string("an exception ended the call: ") + error.what());
    }
    if (!self.status.ok()) shared.failed.store(true, std::memory_order_relaxed);
    self.done.store(seen, std::memory_order_release);
    // Sequentially consistent, as is the caller's pair: one of the two sees the other.
    shared.num_answered.fetch_add(1);
    if (shared.caller_sleeps.load()) {
      const std::lock_guard<std::mutex> lock(shared.mutex);
      shared.answer.notify_one();
    }
  }
}

bool RankTeam::run_raw(Invoke invoke, const void* context, const Limits& limits,
                       const Hooks& hooks) {
  shared_->invoke = invoke;
  shared_->context = context;
  shared_->num_answered.store(0, std::memory_order_relaxed);
  shared_->failed.store(false, std::memory_order_relaxed);
  shared_->posted.fetch_add(1, std::memory_order_release);
  shared_->posted.notify_all();
  const auto all = [&]() { return shared_->num_answered.load(std::memory_order_acquire) == size_; };
  if (spin(shared_->spin_us, all)) return true;
  lost_ = !await_answers(limits, hooks);
  return !lost_;
}

bool RankTeam::await_answers(const Limits& limits, const Hooks& hooks) {
  microseconds limit(limits.total_us);
  Clock::time_point end = Clock::now() + limit;
  bool some = false;
  bool failed = false;
  bool aborted = false;
  const auto shorten = [&](int64_t us) {
    limit = std::min(limit, microseconds(us));
    end = std::min(end, Clock::now() + limit);
  };
  shared_->caller_sleeps.store(true);
  std::unique_lock<std::mutex> lock(shared_->mutex);
  while (shared_->num_answered.load() < size_) {
    if (!some && shared_->num_answered.load() > 0) {
      some = true;
      shorten(limits.skew_us);
    }
    if (!failed && shared_->failed.load()) {
      failed = true;
      shorten(limits.after_error_us);
    }
    if (Clock::now() >= end) {
      if (aborted) break;
      aborted = true;
      lock.unlock();
      hooks.abort();
      lock.lock();
      end = Clock::now() + microseconds(limits.after_abort_us);
    }
    shared_->answer.wait_for(lock, std::min<Clock::duration>(kPollInterval, end - Clock::now()));
    if (hooks.poll) {
      lock.unlock();
      const bool moved = hooks.poll();
      lock.lock();
      if (moved && !aborted) end = Clock::now() + limit;
    }
  }
  shared_->caller_sleeps.store(false);
  return shared_->num_answered.load() == size_;
}

}  // namespace encore::lowering
