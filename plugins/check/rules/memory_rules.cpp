// Rules G on memory: what a step may write, what replays and runners leave behind, and that nothing
// moves under a graph. Known fault G1 is padding that writes into, or reads from, real state.
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "graph_rule_bodies.h"
#include "process_usage.h"

namespace encore::check {
namespace {

constexpr int32_t kPageSize = 16;

// The pages that a step of that work writes: those of the new positions.
std::set<int32_t> written_pages(std::span<const Work> work) {
  std::set<int32_t> pages;
  for (const Work& item : work) {
    for (int32_t i = 0; i < item.count; ++i) {
      const int32_t position = item.request->cached + i;
      pages.insert(item.request->pages[static_cast<size_t>(position / kPageSize)]);
    }
  }
  return pages;
}

// Runs a step and looks which pages it changed.
Status run_and_watch(StepDriver& driver, Runner& runner, std::span<const Work> work,
                     const std::string& what) {
  for (const Work& item : work) {
    ENCORE_RETURN_IF_ERROR(driver.reserve(*item.request, item.count));
  }
  const std::set<int32_t> allowed = written_pages(work);
  ENCORE_ASSIGN_OR_RETURN(const std::vector<uint64_t> before, driver.page_hashes());
  ENCORE_RETURN_IF_ERROR(driver.run(runner, work).status());
  ENCORE_ASSIGN_OR_RETURN(const std::vector<uint64_t> after, driver.page_hashes());
  for (size_t page = 0; page < before.size(); ++page) {
    if (before[page] == after[page] || allowed.contains(static_cast<int32_t>(page))) continue;
    return violation(what + " changed page " + std::to_string(page) +
                     ", into which none of its tokens goes");
  }
  return {};
}

// A pool that is just large enough: live requests own its last page and its first one.
RunnerSetOptions tight_options(int32_t num_pages) {
  RunnerSetOptions options = graph_options();
  options.kv.num_pages = num_pages;
  options.kv.page_size = kPageSize;
  options.capture.poison = true;
  options.capture.decode_buckets = {8, 12};
  options.capture.prefill_buckets = {64, 128};
  return options;
}

Status watch_prefill(Rig& rig, PrefillMode mode, const std::string& name) {
  RunnerSetOptions options = tight_options(6);
  options.capture.prefill_mode = mode;
  options.decode = false;
  ENCORE_ASSIGN_OR_RETURN(RunnerSet set, make_runner_set(*rig.model, options));
  StepDriver driver(rig.vocab_size(), *set.kv);
  std::vector<Request> requests = make_requests(rig, 3, 40);
  // The first request waits with the last page; the second has a full page of prefix.
  ENCORE_RETURN_IF_ERROR(fill_cache(driver, *set.eager->runner, {requests.data(), 1}, 10, 128));
  ENCORE_RETURN_IF_ERROR(fill_cache(driver, *set.eager->runner, {&requests[1], 1}, 16, 128));
  const std::vector<std::vector<Work>> steps = {
      {{&requests[1], 5}, {&requests[2], 3}}, {{&requests[2], 20}}, {{&requests[1], 1}}};
  for (const std::vector<Work>& work : steps) {
    ENCORE_RETURN_IF_ERROR(run_and_watch(driver, *set.prefill->runner, work,
                                         "a " + name + " step padded to 64 tokens"));
  }
  return {};
}

// Results of one decode and one prefill step, always the same.
Result<StepResult> fixed_steps(StepDriver& driver, RunnerSet& set, Request& request) {
  request.cached = 30;
  const std::vector<Work> prefill = {{&request, 5}};
  ENCORE_ASSIGN_OR_RETURN(StepResult result, driver.run(*set.prefill->runner, prefill));
  const std::vector<Work> decode = {{&request, 1}};
  ENCORE_ASSIGN_OR_RETURN(const StepResult decoded, driver.run(*set.decode->runner, decode));
  result.logits.push_back(decoded.logits.at(0));
  result.tokens.push_back(decoded.tokens.at(0));
  result.row_status.push_back(decoded.row_status.at(0));
  return result;
}

// Loads a model with larger buffers of every kind, captures it, runs it and frees it; calls
// `during` while it is there.
template <typename During>
Status with_larger_model(Rig& rig, const During& during) {
  ModelOverrides larger;
  larger.hidden_size = 256;
  larger.intermediate_size = 640;
  larger.num_heads = 8;
  larger.vocab_size = 1000;
  const RandomModel random = random_model(Family::kLlama, 5, DType::kF32, larger);
  ENCORE_ASSIGN_OR_RETURN(const auto model, rig.session.load(random.spec, *random.weights));
  RunnerSetOptions options = graph_options();
  options.capture.limits.max_tokens = 256;
  options.capture.limits.max_context = 640;
  options.capture.prefill_buckets = {16, 256};
  ENCORE_ASSIGN_OR_RETURN(RunnerSet set, make_runner_set(*model, options));
  StepDriver driver(random.spec.vocab_size, *set.kv);
  Request request = make_request(random_tokens(1, 40, random.spec.vocab_size));
  ENCORE_RETURN_IF_ERROR(during());
  ENCORE_RETURN_IF_ERROR(fixed_steps(driver, set, request).status());
  return during();
}

// Nothing if the plugin does not count it.
std::optional<int64_t> allocated_bytes(Rig& rig) {
  for (const auto& [name, value] : rig.session.backend().stats()) {
    if (name == kAllocatedBytesStat) return value;
  }
  return std::nullopt;
}

// What the plugin says is taken by a model and a set of its runners, on the device and in its
// allocations: neither in mapped files, nor on the host, nor in executables.
int64_t named_bytes(const ModelInfo& model, const RunnerSet& set) {
  int64_t bytes = model.weight_bytes - model.mapped_bytes + model.workspace_bytes;
  bytes += set.kv->info().total_bytes;
  for (const std::optional<RunnerCapture>* capture : {&set.eager, &set.prefill, &set.decode}) {
    if (!*capture) continue;
    const CaptureReport& report = (*capture)->report;
    bytes += report.memory_bytes() - report.executable_bytes - report.host_bytes;
  }
  return bytes;
}

}  // namespace

Status decode_padding_writes_no_live_page(Rig& rig) {
  RunnerSetOptions options = tight_options(16);
  options.prefill = false;
  ENCORE_ASSIGN_OR_RETURN(RunnerSet set, make_runner_set(*rig.model, options));
  StepDriver driver(rig.vocab_size(), *set.kv);
  std::vector<Request> requests = make_requests(rig, 8, 40);
  // The first one waits with the last page; the others share out the rest.
  ENCORE_RETURN_IF_ERROR(fill_cache(driver, *set.eager->runner, requests, 10, 128));
  if (requests[0].pages.at(0) != 15) return internal_error("the rule does not own the last page");
  for (const size_t live : {7, 5, 2, 1}) {
    const auto work = work_for(std::span(requests).subspan(1, live), 1);
    for (int32_t step = 0; step < 4; ++step) {
      ENCORE_RETURN_IF_ERROR(
          run_and_watch(driver, *set.decode->runner, work,
                        "a decode step of " + std::to_string(live) + ", padded to 8,"));
    }
  }
  return {};
}

Status prefill_padding_writes_no_live_page(Rig& rig) {
  if (rig.session.has(kCapabilityPrefillFull)) {
    ENCORE_RETURN_IF_ERROR(watch_prefill(rig, PrefillMode::kFull, "full prefill"));
  }
  if (rig.session.has(kCapabilityPrefillBreakable)) {
    ENCORE_RETURN_IF_ERROR(watch_prefill(rig, PrefillMode::kBreakable, "breakable prefill"));
  }
  return {};
}

Status poison_changes_nothing(Rig& rig) {
  for (const PrefillMode mode : {PrefillMode::kFull, PrefillMode::kBreakable}) {
    RunnerSetOptions options = graph_options();
    options.capture.poison = true;
    options.capture.prefill_mode = mode;
    ENCORE_ASSIGN_OR_RETURN(const auto steps, MirroredSteps::create(rig, options));
    std::vector<size_t> requests;
    std::vector<MirroredSteps::Item> items;
    for (const int32_t cached : {30, 5, 17, 0, 100}) {
      ENCORE_ASSIGN_OR_RETURN(requests.emplace_back(), steps->add(cached + 30, cached));
      items.push_back({requests.back(), 3});
    }
    for (size_t count = items.size(); count > 0; --count) {
      ENCORE_RETURN_IF_ERROR(steps->step(steps->prefill(), std::span(items).first(count),
                                         "a poisoned prefill of " + std::to_string(count)));
      ENCORE_RETURN_IF_ERROR(steps->decode(std::span(requests).first(count),
                                           "a poisoned decode of " + std::to_string(count)));
    }
  }
  return {};
}

Status guards_stay_intact(Rig& rig) {
  RunnerSetOptions options = graph_options();
  options.kv.num_pages = 40;
  options.kv.guards = true;
  options.capture.guards = true;
  ENCORE_ASSIGN_OR_RETURN(RunnerSet set, make_runner_set(*rig.model, options));
  StepDriver driver(rig.vocab_size(), *set.kv);
  std::vector<Request> requests = make_requests(rig, 12, 48);
  const auto check = [&](const std::string& what) -> Status {
    Status guards = rig.model->check_guards();
    if (guards.ok() || guards.code() == StatusCode::kUnimplemented) return guards;
    return violation("after " + what + ": " + guards.message());
  };
  ENCORE_RETURN_IF_ERROR(check("capture"));
  // Every buffer to its ends: all tokens of a step, all requests, all pages.
  for (Request& request : requests) {
    const std::vector<Work> work = {{&request, 33}};
    ENCORE_RETURN_IF_ERROR(driver.run(*set.prefill->runner, work).status());
  }
  ENCORE_RETURN_IF_ERROR(check("prefill steps"));
  for (int32_t step = 0; step < 15; ++step) {
    ENCORE_RETURN_IF_ERROR(driver.run(*set.decode->runner, work_for(requests, 1)).status());
  }
  ENCORE_RETURN_IF_ERROR(check("decode steps of all requests"));
  for (Request& request : requests) driver.finish(request);
  std::vector<Request> one = make_requests(rig, 1, 128);
  ENCORE_RETURN_IF_ERROR(driver.run(*set.prefill->runner, work_for(one, 128)).status());
  return check("a prefill step of all tokens");
}

Status replays_leave_nothing_behind(Rig& rig) {
  const int32_t rounds = rig.context.quick ? 500 : 5000;  // of two replays each
  RunnerSetOptions options = graph_options();
  options.kv.num_pages = 8;
  ENCORE_ASSIGN_OR_RETURN(RunnerSet set, make_runner_set(*rig.model, options));
  StepDriver driver(rig.vocab_size(), *set.kv);
  std::vector<Request> requests = make_requests(rig, 1, 40);
  ENCORE_RETURN_IF_ERROR(fill_cache(driver, *set.eager->runner, requests, 30, 128));
  ENCORE_ASSIGN_OR_RETURN(const StepResult first, fixed_steps(driver, set, requests[0]));
  ProcessUsage before;
  for (int32_t round = 0; round < rounds; ++round) {
    if (round == rounds / 10) before = process_usage();
    ENCORE_ASSIGN_OR_RETURN(const StepResult result, fixed_steps(driver, set, requests[0]));
    ENCORE_RETURN_IF_ERROR(
        same_results(result, first, "replay " + std::to_string(2 * round) + " of one step"));
  }
  constexpr int64_t kSlackBytes = 512 * 1024;
  return check_growth(before, process_usage(), kSlackBytes,
                      "over " + std::to_string(2 * rounds * 9 / 10) + " replays");
}

Status larger_model_comes_and_goes(Rig& rig) {
  ENCORE_ASSIGN_OR_RETURN(RunnerSet set, make_runner_set(*rig.model, graph_options()));
  StepDriver driver(rig.vocab_size(), *set.kv);
  std::vector<Request> requests = make_requests(rig, 1, 40);
  ENCORE_RETURN_IF_ERROR(fill_cache(driver, *set.eager->runner, requests, 30, 128));
  ENCORE_ASSIGN_OR_RETURN(const StepResult before, fixed_steps(driver, set, requests[0]));
  const auto again = [&](const std::string& what) -> Status {
    ENCORE_ASSIGN_OR_RETURN(const StepResult result, fixed_steps(driver, set, requests[0]));
    return same_results(result, before, what);
  };
  for (int32_t round = 0; round < 2; ++round) {
    ENCORE_RETURN_IF_ERROR(
        with_larger_model(rig, [&] { return again("while a larger model is loaded beside it"); }));
    ENCORE_RETURN_IF_ERROR(again("after a larger model was freed"));
  }
  return {};
}

Status freed_runners_leave_no_memory(Rig& rig) {
  const int32_t rounds = rig.context.quick ? 12 : 100;
  constexpr int32_t kWarmUp = 4;
  ProcessUsage before;
  int64_t allocated_before = 0;
  for (int32_t round = 0; round < rounds; ++round) {
    if (round == kWarmUp) {
      before = process_usage();
      allocated_before = allocated_bytes(rig).value_or(0);
    }
    ENCORE_ASSIGN_OR_RETURN(RunnerSet set, make_runner_set(*rig.model, graph_options()));
    StepDriver driver(rig.vocab_size(), *set.kv);
    std::vector<Request> requests = make_requests(rig, 1, 40);
    ENCORE_RETURN_IF_ERROR(fixed_steps(driver, set, requests[0]).status());
  }
  const std::string what = "over " + std::to_string(rounds - kWarmUp) +
                           " times making and freeing a KV cache with its runners";
  const int64_t allocated = allocated_bytes(rig).value_or(0);
  if (allocated > allocated_before) {
    return violation(what + ": " + std::string(kAllocatedBytesStat) + " grew from " +
                     std::to_string(allocated_before) + " to " + std::to_string(allocated));
  }
  constexpr int64_t kSlackBytes = 4 << 20;
  return check_growth(before, process_usage(), kSlackBytes, what);
}

Status reports_name_what_is_allocated(Rig& rig) {
  ENCORE_ASSIGN_OR_RETURN(const RunnerSet set, make_runner_set(*rig.model, graph_options()));
  const std::optional<int64_t> allocated = allocated_bytes(rig);
  if (!allocated) {
    return unimplemented("the plugin has no counter " + std::string(kAllocatedBytesStat));
  }
  const int64_t named = named_bytes(rig.model->info(), set);
  if (named <= *allocated) return {};
  return violation("the model, its KV cache and its runners name " + std::to_string(named) +
                   " bytes; " + std::string(kAllocatedBytesStat) + " is " +
                   std::to_string(*allocated));
}

}  // namespace encore::check
