// An engine on the fake model, ways to drive it, and what it should say.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "encore/capture.h"
#include "engine/engine.h"
#include "fake_model.h"

namespace encore::fake {

// Letters for 0..25, then a newline, two newlines, and the two halves of an "é"; else "<id>".
class FakeText : public TokenText {
 public:
  std::string push(int32_t id) override {
    if (id < 26) return std::string(1, static_cast<char>('A' + id));
    if (id == 26) return "\n";
    if (id == 27) return "\n\n";
    if (id == 28) {
      half_ = true;
      return "";
    }
    if (id == 29) {
      half_ = false;
      return "\xC3\xA9";
    }
    return std::string("<").append(std::to_string(id)).append(">");
  }
  std::string finish() override { return half_ ? "\xEF\xBF\xBD" : ""; }

 private:
  bool half_ = false;
};

struct RigOptions {
  RunnerLimits limits{.max_requests = 8,
                      .max_tokens = 64,
                      .max_context = 256,
                      .max_logprobs = 4,
                      .max_history = 4096,
                      .max_biases = 256};
  KvOptions kv{.num_pages = 256, .page_size = 4};
  GraphsOptions graphs;
  DispatchOptions dispatch{.eager_samples = 0};
  std::vector<int32_t> end_tokens{63};
  bool text = true;
  bool submit_ahead = false;
  bool prefix_cache = true;
  int32_t guard_check_interval = 0;
};

struct Reply {
  std::vector<int32_t> tokens;
  std::string text;
  FinishReason finish = FinishReason::kNone;
  int32_t num_finishes = 0;
  RequestEvent last;
};

class Rig {
 public:
  Rig() : Rig(RigOptions()) {}
  explicit Rig(const RigOptions& options);
  ~Rig() { EXPECT_EQ(device().violations, std::vector<std::string>{}); }

  Device& device() { return dynamic_cast<FakeKv&>(*kv).device(); }

  RequestId add(RequestOptions options) {
    auto id = engine->add(std::move(options));
    EXPECT_TRUE(id.ok()) << id.status().to_string();
    return id.ok() ? *id : 0;
  }

  std::vector<RequestId> add_all(std::vector<RequestOptions> options) {
    auto ids = engine->add_all(std::move(options));
    EXPECT_TRUE(ids.ok()) << ids.status().to_string();
    return ids.ok() ? *ids : std::vector<RequestId>{};
  }

  // One step; collects its events. Returns whether work is left.
  bool step();

  void run() {
    for (int32_t i = 0; step(); ++i) {
      ASSERT_LT(i, 100000) << "the engine does not come to an end";
    }
    EXPECT_TRUE(engine->idle() || !last_status.ok());
  }

  Reply run_alone(RequestOptions options) {
    const RequestId id = add(std::move(options));
    run();
    return replies[id];
  }

  // Nothing is left of any request: no page is used, and each is either kept or free.
  void expect_at_rest() {
    const EngineStats stats = engine->stats();
    EXPECT_TRUE(engine->idle());
    EXPECT_EQ(stats.num_running, 0);
    EXPECT_EQ(stats.num_waiting, 0);
    EXPECT_EQ(stats.pages_used, 0);
    EXPECT_EQ(stats.pages_used + stats.pages_cached + stats.pages_free, stats.num_pages);
  }

  FakeModel model;
  std::vector<std::string> log;
  std::unique_ptr<KvCache> kv;
  std::unique_ptr<Engine> engine;  // before the KV cache, backwards
  std::vector<RequestEvent> events;
  std::map<RequestId, Reply> replies;
  Status last_status;
};

// The reply as it must be, computed from the request alone: no pages, no batches, no state.
std::vector<int32_t> expected_tokens(const RequestOptions& options, int32_t max_output,
                                     std::vector<int32_t> stop_tokens = {63});

// A prompt that no other `salt` shares.
std::vector<int32_t> make_prompt(int32_t size, int32_t salt);

// A request of some kind: greedy or seeded, penalised or not, short or long, as `salt` has it.
RequestOptions varied_request(int32_t salt, int32_t max_prompt, int32_t max_reply);

}  // namespace encore::fake
