// One thread for each rank, handed the same call again and again.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "encore/status.h"

namespace encore::lowering {

// The threads live as long as the team, so each rank's device is always used from the same one.
// Between calls they spin for as long as a host takes between two steps, then sleep; where there
// are too few processors for that they sleep at once.
//
// A team with a rank that did not answer in time is lost: nothing more can be run on it, and its
// threads are left to themselves. run() is for one caller at a time; it allocates nothing.
class RankTeam {
 public:
  // How long run() waits.
  struct Limits {
    int64_t total_us = 0;        // for the first rank's answer
    int64_t skew_us = 0;         // for the others, from then on
    int64_t after_error_us = 0;  // for the others, once a rank has answered with an error
    int64_t after_abort_us = 0;  // for those still missing, once collectives have been told to end
  };
  struct Hooks {
    // Ends collectives that wait for a rank which will not come. Called when a limit has passed.
    std::function<void()> abort;
    // Called now and then while a long call runs: whether the call has come on since. Then the
    // limit in force starts anew. May be empty.
    std::function<bool()> poll;
  };

  // Errors: kOutOfMemory if the threads cannot be started.
  static Result<std::unique_ptr<RankTeam>> create(int32_t size);
  ~RankTeam();
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;

  int32_t size() const { return size_; }

  // Calls `call(rank)`, which returns a Status, on every rank's thread. False if not all ranks
  // answered within the limits: the team is lost, and the call may still be running.
  template <typename Call>
  bool run(const Call& call, const Limits& limits, const Hooks& hooks) {
    const auto invoke = [](const void* context, int32_t rank) {
      return (*static_cast<const Call*>(context))(rank);
    };
    return run_raw(invoke, &call, limits, hooks);
  }

  // After a run that gave false: waits for the ranks that are late. Whether all have come, and so
  // nothing of the call runs any more.
  bool await_late_ranks(int64_t timeout_us) const;

  // Of the last run: whether the rank answered, and what. REQUIRES for status(): it did.
  bool answered(int32_t rank) const;
  const Status& status(int32_t rank) const { return shared_->ranks[rank].status; }
  bool lost() const { return lost_; }

 private:
  using Invoke = Status (*)(const void* context, int32_t rank);
  struct alignas(64) Rank {
    std::atomic<uint32_t> done{0};  // the number of the last call answered
    Status status;
  };
  // Outlives the team if a thread is left behind.
  struct Shared {
    explicit Shared(int32_t size) : ranks(static_cast<size_t>(size)) {}
    std::vector<Rank> ranks;
    Invoke invoke = nullptr;
    const void* context = nullptr;
    int64_t spin_us = 0;
    std::atomic<bool> stopping{false};
    alignas(64) std::atomic<uint32_t> posted{0};  // the number of the last call
    alignas(64) std::atomic<int32_t> num_answered{0};
    std::atomic<bool> failed{false};
    std::atomic<bool> caller_sleeps{false};
    std::mutex mutex;
    std::condition_variable answer;
  };

  explicit RankTeam(int32_t size);
  static void serve(Shared& shared, int32_t rank);
  static uint32_t await_call(const Shared& shared, uint32_t seen);
  bool run_raw(Invoke invoke, const void* context, const Limits& limits, const Hooks& hooks);
  bool await_answers(const Limits& limits, const Hooks& hooks);

  int32_t size_;
  std::shared_ptr<Shared> shared_;
  std::vector<std::thread> threads_;
  bool lost_ = false;
};

}  // namespace encore::lowering
