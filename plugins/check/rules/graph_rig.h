// What the rules on graphs and threads start from: the plugin with a small model, and steps that
// are run twice, by a graph and eagerly.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "encore/backend.h"
#include "encore/status.h"
#include "plugin_session.h"
#include "random_model.h"
#include "rule.h"
#include "runner_set.h"
#include "step_driver.h"

namespace encore::check {

// The plugin with a random Llama of two layers. Members go in reverse order: the model first.
struct Rig {
  const CheckContext& context;
  PluginSession session;
  RandomModel random;
  std::unique_ptr<Model> model;

  int64_t vocab_size() const { return random.spec.vocab_size; }
};

// A rule's body: ok if the plugin keeps the rule, kUnimplemented if it does not offer what the rule
// is about, anything else if it breaks the rule.
using RigBody = Status (*)(Rig& rig);
Outcome run_on_rig(const CheckContext& context, RigBody body);

template <RigBody kBody>
Outcome on_rig(const CheckContext& context) {
  return run_on_rig(context, kBody);
}

// What a rule found that should not be so.
Status violation(std::string message);

// 12 requests, 128 new tokens a step, 320 tokens of context; buckets {16, 32, 64, 128} and
// {1, 2, 4, 8, 12}; all three runners. More than the rules R use, so that what only shows far from
// the usual sizes shows here.
RunnerSetOptions graph_options();

// `count` requests of `length` random tokens each, with fixed contents for each index.
std::vector<Request> make_requests(const Rig& rig, int32_t count, int32_t length);

// Work of `count` tokens for each of the requests.
std::vector<Work> work_for(std::span<Request> requests, int32_t count);

// Enters the first `length` tokens of each request into the cache, by as many steps as it takes.
Status fill_cache(StepDriver& driver, Runner& runner, std::span<Request> requests, int32_t length,
                  int32_t max_tokens);

// Errors: kInternal naming the row if the two steps' logits or statuses differ by more than
// rounding explains; `what` says which step it was.
Status same_results(const StepResult& found, const StepResult& expected, const std::string& what);

// A graph's runner and, on another KV cache, the eager one, fed the same steps. Requests hold fixed
// tokens, so that one wrong step does not change the input of the next.
class MirroredSteps {
 public:
  // Captures with `options`; the eager side has neither poison nor guards.
  static Result<std::unique_ptr<MirroredSteps>> create(Rig& rig, const RunnerSetOptions& options);

  // A request of `length` tokens, `cached` of which are entered eagerly on both sides.
  Result<size_t> add(int32_t length, int32_t cached);
  // As if only the first `cached` tokens had been entered: steps after it enter the same tokens
  // again, so one filled request serves for every length.
  void rewind(size_t request, int32_t cached);
  // Ends a request; its pages may go to another one.
  void finish(size_t request);

  struct Item {
    size_t request = 0;
    int32_t count = 1;
  };
  // Runs one step of `runner` on the one side, and on the other each request eagerly by itself.
  // Errors: those of same_results().
  Status step(Runner& runner, std::span<const Item> items, const std::string& what);
  // Each of the requests by one token.
  Status decode(std::span<const size_t> requests, const std::string& what);

  RunnerSet& graphs() { return graphs_; }
  Runner& prefill() { return *graphs_.prefill->runner; }
  Runner& decode_runner() { return *graphs_.decode->runner; }
  StepDriver& driver() { return *driver_; }
  Request& request(size_t index) { return *requests_[index].graph; }

 private:
  struct Pair {
    std::unique_ptr<Request> graph;
    std::unique_ptr<Request> eager;
  };
  explicit MirroredSteps(Rig& rig) : rig_(rig) {}

  Rig& rig_;
  int32_t max_tokens_ = 0;
  RunnerSet graphs_;
  RunnerSet eager_;
  std::unique_ptr<StepDriver> driver_;
  std::unique_ptr<StepDriver> eager_driver_;
  std::vector<Pair> requests_;
};

}  // namespace encore::check
