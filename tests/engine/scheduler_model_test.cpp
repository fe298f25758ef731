// The scheduler against an independent account: who uses which page, and what is written there.
// Thousands of steps of adds, cancels, errors, refused steps and preemptions at random, over
// prompts of few tokens that begin alike, so that pages are shared, evicted and forgotten all the
// time.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "engine/scheduler.h"

namespace encore {
namespace {

struct Setup {
  const char* name;
  int32_t num_pages;
  int32_t max_requests;
  int32_t max_tokens;
  bool ahead;
  bool prefix_cache;
};

class SchedulerModelTest : public testing::TestWithParam<Setup> {
 protected:
  static constexpr int32_t kPageSize = 4;
  static constexpr int32_t kMaxBiases = 4;  // of one step and of one request

  // A request, and the tokens that submitted steps have sampled for it but the host has not seen.
  struct Tracked {
    RequestState* state = nullptr;
    std::deque<int32_t> sampled;
  };
  struct Written {
    int32_t token = -1;
    int32_t position = -1;
  };
  using Plan = std::vector<PlannedRequest>;

  int32_t draw(int32_t range) { return static_cast<int32_t>(random_() % range); }

  void add_request() {
    auto state = std::make_unique<RequestState>();
    state->id = ++last_id_;
    std::mt19937 prefix(draw(3));  // one of three beginnings
    const int32_t shared = draw(30);
    for (int32_t i = 0; i < shared; ++i) {
      state->tokens.push_back(static_cast<int32_t>(prefix() % 2));
    }
    for (int32_t i = draw(10); i >= 0; --i) state->tokens.push_back(draw(2));
    state->prompt_size = static_cast<int32_t>(state->tokens.size());
    state->max_output = 1 + draw(24);
    if (draw(2) == 0) state->biases.resize(1 + draw(kMaxBiases));
    state->num_caller_biases = static_cast<int32_t>(state->biases.size());
    tracked_[last_id_] = {&scheduler_.add(std::move(state)), {}};
  }

  // The tokens of a request as the device knows them.
  static int32_t token_at(const Tracked& tracked, int32_t position) {
    const auto known = static_cast<int32_t>(tracked.state->tokens.size());
    return position < known ? tracked.state->tokens[position] : tracked.sampled[position - known];
  }

  // As a device would: all keys and values of the step, then all reads.
  void run(const Plan& plan) {
    for (const PlannedRequest& planned : plan) {
      const Tracked& tracked = tracked_[planned.request->id];
      const int32_t end = planned.request->num_computed + planned.num_tokens;
      for (int32_t position = planned.request->num_computed; position < end; ++position) {
        const int32_t page = planned.request->pages[position / kPageSize];
        expect_alone(page, position / kPageSize, planned.request->id);
        pages_[page * kPageSize + position % kPageSize] = {token_at(tracked, position), position};
      }
    }
    for (const PlannedRequest& planned : plan) {
      Tracked& tracked = tracked_[planned.request->id];
      const int32_t end = planned.request->num_computed + planned.num_tokens;
      for (int32_t position = 0; position < end; ++position) {
        const int32_t page = planned.request->pages[position / kPageSize];
        const Written& written = pages_[page * kPageSize + position % kPageSize];
        ASSERT_EQ(written.position, position) << "request " << planned.request->id;
        ASSERT_EQ(written.token, token_at(tracked, position)) << "request " << planned.request->id;
      }
      planned.request->num_computed = end;
      ++planned.request->steps_in_flight;
      if (!planned.samples) continue;
      ASSERT_EQ(end, planned.request->num_tokens());
      ++planned.request->pending_samples;
      tracked.sampled.push_back(draw(2));
    }
  }

  // Whoever else has the page has it for reading: all its tokens count as computed for them.
  void expect_alone(int32_t page, int32_t index, RequestId writer) {
    for (const auto& [id, tracked] : tracked_) {
      const std::vector<int32_t>& pages = tracked.state->pages;
      if (id == writer || std::count(pages.begin(), pages.end(), page) == 0) continue;
      ASSERT_GT(std::ssize(pages), index);
      ASSERT_EQ(pages[index], page);
      ASSERT_GE(tracked.state->num_computed, (index + 1) * kPageSize);
    }
  }

  void end(RequestState& request, FinishReason reason) {
    request.finish = reason;
    const RequestId id = request.id;
    const bool last = request.steps_in_flight == 0;
    scheduler_.finish(request);
    if (last) tracked_.erase(id);
  }

  void end_by_error(RequestState& request) {
    scheduler_.forget_pages(request);
    end(request, FinishReason::kError);
  }

  void submit(bool ahead) {
    Plan plan;
    if (!scheduler_.plan_step(!ahead, plan) || plan.empty()) return;
    int32_t num_tokens = 0;
    int32_t num_biases = 0;
    for (const PlannedRequest& planned : plan) {
      num_tokens += planned.num_tokens;
      if (planned.samples) num_biases += planned.request->num_bias_entries();
    }
    EXPECT_LE(num_biases, kMaxBiases);
    EXPECT_LE(num_tokens, GetParam().max_tokens);
    EXPECT_LE(std::ssize(plan), GetParam().max_requests);
    if (draw(30) == 0) {  // refused
      for (const PlannedRequest& planned : plan) end_by_error(*planned.request);
      return;
    }
    ASSERT_NO_FATAL_FAILURE(run(plan));
    in_flight_.push_back(std::move(plan));
  }

  void process_oldest() {
    const Plan plan = std::move(in_flight_.front());
    in_flight_.pop_front();
    for (const PlannedRequest& planned : plan) {
      RequestState& request = *planned.request;
      if (planned.samples) take_token(request);
      if (!planned.samples && !request.finished()) scheduler_.cache_pages(request);
      --request.steps_in_flight;
      const RequestId id = request.id;
      const bool last = request.finished() && request.steps_in_flight == 0;
      scheduler_.release(request);
      if (last) tracked_.erase(id);
    }
  }

  void take_token(RequestState& request) {
    Tracked& tracked = tracked_[request.id];
    const int32_t token = tracked.sampled.front();
    tracked.sampled.pop_front();
    --request.pending_samples;
    if (request.finished()) return;
    if (draw(60) == 0) {
      end_by_error(request);
      return;
    }
    request.tokens.push_back(token);
    scheduler_.cache_pages(request);
    if (request.num_output() == request.max_output) end(request, FinishReason::kLength);
  }

  void check_accounts() {
    std::vector<int32_t> users(GetParam().num_pages, 0);
    for (const auto& [id, tracked] : tracked_) {
      for (const int32_t page : tracked.state->pages) ++users[page];
    }
    const PagePool& pool = scheduler_.pages();
    int32_t used = 0;
    for (int32_t page = 0; page < pool.num_pages(); ++page) {
      ASSERT_EQ(pool.ref_count(page), users[page]) << "page " << page;
      if (users[page] > 0) ++used;
      ASSERT_FALSE(users[page] > 0 && pool.is_kept(page)) << "page " << page;
    }
    ASSERT_EQ(pool.num_used(), used);
    ASSERT_EQ(pool.num_used() + pool.num_kept() + pool.num_free(), pool.num_pages());
    ASSERT_FALSE(!GetParam().prefix_cache && pool.num_kept() > 0);
  }

  void cancel_one() {
    const std::vector<RequestState*> requests = scheduler_.unfinished();
    if (requests.empty()) return;
    end(*requests[draw(static_cast<int32_t>(requests.size()))], FinishReason::kCancelled);
  }

  void step() {
    if (in_flight_.empty()) submit(false);
    check_accounts();
    if (HasFatalFailure()) return;
    if (GetParam().ahead && in_flight_.size() == 1) submit(true);
    if (HasFatalFailure()) return;
    if (!in_flight_.empty()) process_oldest();
    check_accounts();
  }

  std::mt19937 random_{17};
  Scheduler scheduler_{{.max_requests = GetParam().max_requests,
                        .max_tokens = GetParam().max_tokens,
                        .max_context = 64,
                        .max_biases = kMaxBiases},
                       {.num_pages = GetParam().num_pages, .page_size = kPageSize},
                       GetParam().prefix_cache};
  std::map<RequestId, Tracked> tracked_;  // those that may have pages
  std::deque<Plan> in_flight_;
  std::vector<Written> pages_ =
      std::vector<Written>(static_cast<size_t>(GetParam().num_pages) * kPageSize);
  RequestId last_id_ = 0;
};

TEST_P(SchedulerModelTest, PagesAreWhatTheirUsersTakeThemFor) {
  for (int32_t round = 0; round < 6000; ++round) {
    if (tracked_.size() < 20 && draw(3) == 0) add_request();
    if (draw(25) == 0) cancel_one();
    step();
    if (HasFatalFailure()) return;
  }
  for (int32_t round = 0; !tracked_.empty(); ++round) {
    ASSERT_LT(round, 5000) << "requests do not come to an end";
    step();
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(scheduler_.pages().num_used(), 0);
  EXPECT_EQ(scheduler_.num_waiting() + scheduler_.num_running(), 0);
  if (!GetParam().prefix_cache) return;
  EXPECT_GT(scheduler_.num_cache_hits(), 1000);
  if (GetParam().num_pages < 100) {
    EXPECT_GT(scheduler_.num_preemptions(), 0);
    EXPECT_GT(scheduler_.num_cache_evictions(), 100);
  }
}

INSTANTIATE_TEST_SUITE_P(Setups, SchedulerModelTest,
                         testing::Values(Setup{"Roomy", 200, 8, 32, false, true},
                                         Setup{"RoomyAhead", 200, 8, 32, true, true},
                                         Setup{"Short", 20, 8, 16, false, true},
                                         Setup{"ShortAhead", 20, 8, 16, true, true},
                                         Setup{"SmallStepsAhead", 24, 5, 5, true, true},
                                         Setup{"ShortAheadWithoutCache", 20, 8, 16, true, false}),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace encore
