#include "graph_rig.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "logit_error.h"

namespace encore::check {
namespace {

constexpr uint64_t kSeed = 11;
// The sampled token's logit is the largest, or was before the logits were rounded.
Status check_greedy(std::span<const float> logits, int32_t token, const std::string& where) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  const bool in_range = token >= 0 && static_cast<size_t>(token) < logits.size();
  const float slack = 0.01F * std::fabs(largest);
  if (in_range && logits[static_cast<size_t>(token)] >= largest - slack) return {};
  return violation(where + "the sampled token is " + std::to_string(token) +
                   ", whose logit is not the largest, " + std::to_string(largest));
}

std::vector<Work> work_of_one(Request& request, int32_t count) { return {{&request, count}}; }

}  // namespace

Status violation(std::string message) { return internal_error(std::move(message)); }

Outcome run_on_rig(const CheckContext& context, RigBody body) {
  Rig rig{context, PluginSession(context), {}, nullptr};
  if (!rig.session.ok()) return rig.session.outcome();
  rig.random = random_model(Family::kLlama, kSeed, DType::kF32);
  Result<std::unique_ptr<Model>> model = rig.session.load(rig.random.spec, *rig.random.weights);
  if (!model.ok()) return outcome_of(model.status());
  rig.model = std::move(model).value();
  return outcome_of(body(rig));
}

RunnerSetOptions graph_options() {
  RunnerSetOptions options = small_options();
  options.kv.num_pages = 160;
  options.prefill = true;
  options.decode = true;
  CaptureOptions& capture = options.capture;
  capture.limits.max_requests = 12;
  capture.limits.max_tokens = 128;
  capture.limits.max_context = 320;
  capture.prefill_buckets = {16, 32, 64, 128};
  capture.decode_buckets = {1, 2, 4, 8, 12};
  return options;
}

std::vector<Request> make_requests(const Rig& rig, int32_t count, int32_t length) {
  std::vector<Request> requests;
  for (int32_t i = 0; i < count; ++i) {
    const uint64_t seed = 100 + static_cast<uint64_t>(i);
    requests.push_back(make_request(random_tokens(seed, length, rig.vocab_size())));
  }
  return requests;
}

std::vector<Work> work_for(std::span<Request> requests, int32_t count) {
  std::vector<Work> work;
  for (Request& request : requests) work.push_back({&request, count});
  return work;
}

Status fill_cache(StepDriver& driver, Runner& runner, std::span<Request> requests, int32_t length,
                  int32_t max_tokens) {
  for (Request& request : requests) {
    while (request.cached < length) {
      const int32_t count = std::min(length - request.cached, max_tokens);
      const std::vector<Work> work = {{&request, count, false}};
      ENCORE_RETURN_IF_ERROR(driver.run(runner, work).status());
    }
  }
  return {};
}

Status same_results(const StepResult& found, const StepResult& expected, const std::string& what) {
  for (size_t row = 0; row < expected.logits.size(); ++row) {
    const std::string where = what + ", row " + std::to_string(row) + ": ";
    if (found.row_status[row] != expected.row_status[row]) {
      return violation(where + "its status is " + std::to_string(found.row_status[row]) +
                       ", expected " + std::to_string(expected.row_status[row]));
    }
    const LogitError error = logit_error(found.logits[row], expected.logits[row]);
    if (!kReducedLimit.holds(error)) {
      return violation(where +
                       "the logits are not what they should be: " + describe(error, kReducedLimit));
    }
    ENCORE_RETURN_IF_ERROR(check_greedy(found.logits[row], found.tokens[row], where));
  }
  return {};
}

Result<std::unique_ptr<MirroredSteps>> MirroredSteps::create(Rig& rig,
                                                             const RunnerSetOptions& options) {
  std::unique_ptr<MirroredSteps> steps(new MirroredSteps(rig));
  steps->max_tokens_ = options.capture.limits.max_tokens;
  ENCORE_ASSIGN_OR_RETURN(steps->graphs_, make_runner_set(*rig.model, options));
  RunnerSetOptions eager = options;
  eager.prefill = false;
  eager.decode = false;
  eager.capture.poison = false;
  eager.capture.guards = false;
  ENCORE_ASSIGN_OR_RETURN(steps->eager_, make_runner_set(*rig.model, eager));
  steps->driver_ = std::make_unique<StepDriver>(rig.vocab_size(), *steps->graphs_.kv);
  steps->eager_driver_ = std::make_unique<StepDriver>(rig.vocab_size(), *steps->eager_.kv);
  return steps;
}

Result<size_t> MirroredSteps::add(int32_t length, int32_t cached) {
  const uint64_t seed = 1000 + requests_.size();
  const std::vector<int32_t> tokens = random_tokens(seed, length, rig_.vocab_size());
  Pair& pair = requests_.emplace_back(Pair{std::make_unique<Request>(make_request(tokens)),
                                           std::make_unique<Request>(make_request(tokens))});
  ENCORE_RETURN_IF_ERROR(
      fill_cache(*driver_, *graphs_.eager->runner, {pair.graph.get(), 1}, cached, max_tokens_));
  ENCORE_RETURN_IF_ERROR(fill_cache(*eager_driver_, *eager_.eager->runner, {pair.eager.get(), 1},
                                    cached, max_tokens_));
  return requests_.size() - 1;
}

void MirroredSteps::rewind(size_t request, int32_t cached) {
  requests_[request].graph->cached = cached;
  requests_[request].eager->cached = cached;
}

void MirroredSteps::finish(size_t request) {
  driver_->finish(*requests_[request].graph);
  eager_driver_->finish(*requests_[request].eager);
}

Status MirroredSteps::step(Runner& runner, std::span<const Item> items, const std::string& what) {
  std::vector<Work> work;
  StepResult expected;
  for (const Item& item : items) {
    Pair& pair = requests_[item.request];
    work.push_back({pair.graph.get(), item.count});
    ENCORE_ASSIGN_OR_RETURN(
        const StepResult alone,
        eager_driver_->run(*eager_.eager->runner, work_of_one(*pair.eager, item.count)));
    expected.row_status.push_back(alone.row_status.at(0));
    expected.logits.push_back(alone.logits.at(0));
  }
  ENCORE_ASSIGN_OR_RETURN(const StepResult found, driver_->run(runner, work));
  return same_results(found, expected, what);
}

Status MirroredSteps::decode(std::span<const size_t> requests, const std::string& what) {
  std::vector<Item> items;
  for (const size_t request : requests) items.push_back({request, 1});
  return step(decode_runner(), items, what);
}

}  // namespace encore::check
