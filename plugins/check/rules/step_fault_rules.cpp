// Rules E on steps that cannot be run, and on waits that run out of time.
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "error_rule_bodies.h"
#include "plugin_session.h"
#include "random_model.h"
#include "runner_set.h"
#include "step_driver.h"

namespace encore::check {
namespace {

constexpr int64_t kLongWaitUs = 30'000'000;
constexpr int32_t kPromptTokens = 20;

// A model with its runners, and a request whose prompt is in the cache. Children last.
struct Rig {
  explicit Rig(const CheckContext& context) : session(context) {}

  PluginSession session;
  RandomModel small = random_model(Family::kLlama, 7, DType::kF32);
  std::unique_ptr<Model> model;
  RunnerSet set;
  std::optional<StepDriver> driver;
  Request request;

  Runner& eager() { return *set.eager->runner; }

  Status start() {
    ENCORE_ASSIGN_OR_RETURN(model, session.load(small.spec, *small.weights));
    ENCORE_ASSIGN_OR_RETURN(set, make_runner_set(*model, small_options()));
    driver.emplace(small.spec.vocab_size, *set.kv);
    request = make_request(random_tokens(5, kPromptTokens, small.spec.vocab_size));
    ENCORE_RETURN_IF_ERROR(driver->reserve(request, kPromptTokens + 8));
    const Work prompt{&request, kPromptTokens, true};
    return driver->run_and_append(eager(), {&prompt, 1}).status();
  }

  // The step after the prompt, which each rule below spoils in its own way.
  Result<OwnedBatch> next_batch() {
    const Work work{&request, 1, true};
    return driver->batch_of({&work, 1});
  }
};

struct Contradiction {
  const char* field;  // which the message must name
  const char* what;
  std::function<void(OwnedBatch*)> spoil;
};

std::vector<Contradiction> contradictions() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  return {
      {"q_start", "does not start at 0", [](OwnedBatch* b) { b->q_start[0] = 1; }},
      {"q_start", "does not end at the number of tokens", [](OwnedBatch* b) { b->q_start[1] = 2; }},
      {"q_start", "lacks its last entry", [](OwnedBatch* b) { b->q_start.pop_back(); }},
      {"kv_len", "is less than the new tokens", [](OwnedBatch* b) { b->kv_len[0] = 0; }},
      {"kv_len", "is more than the pages hold", [](OwnedBatch* b) { b->kv_len[0] = 10'000; }},
      {"positions", "is not that of the token", [](OwnedBatch* b) { b->positions[0] += 1; }},
      {"positions", "has too many entries", [](OwnedBatch* b) { b->positions.push_back(0); }},
      {"page_ids", "is beyond the last page", [](OwnedBatch* b) { b->page_ids[0] = 1'000'000; }},
      {"page_ids", "is negative", [](OwnedBatch* b) { b->page_ids[0] = -1; }},
      {"page_start", "does not end at the number of pages",
       [](OwnedBatch* b) { b->page_start[1] -= 1; }},
      {"token_ids", "is beyond the vocabulary", [](OwnedBatch* b) { b->token_ids[0] = 1 << 30; }},
      {"logit_rows", "is beyond the tokens", [](OwnedBatch* b) { b->logit_rows[0] = 5; }},
      {"logit_rows", "is negative", [](OwnedBatch* b) { b->logit_rows[0] = -1; }},
      {"sampling", "lacks a row", [](OwnedBatch* b) { b->sampling.clear(); }},
      {"sampling", "has a temperature that is no number",
       [nan](OwnedBatch* b) { b->sampling[0].temperature = nan; }},
      {"sampling", "has a top_p of 2", [](OwnedBatch* b) { b->sampling[0].top_p = 2.0F; }},
  };
}

// Submits the batch; one that is taken after all is waited for, so that the runner can go on.
Status submit(Rig& rig, const OwnedBatch& batch) {
  OwnedOutput output(1, rig.small.spec.vocab_size, {});
  const Result<Ticket> ticket = rig.eager().submit(batch.view(), output.view());
  if (!ticket.ok()) return ticket.status();
  static_cast<void>(rig.eager().wait(*ticket, kLongWaitUs));
  return {};
}

std::string describe(const Contradiction& contradiction) {
  return std::string("a batch whose ") + contradiction.field + " " + contradiction.what;
}

Status same_pages(Rig& rig, const std::vector<uint64_t>& before) {
  ENCORE_ASSIGN_OR_RETURN(const std::vector<uint64_t> after, rig.driver->page_hashes());
  for (size_t page = 0; page < before.size(); ++page) {
    if (before[page] != after[page]) {
      return internal_error("page " + std::to_string(page) + " was changed");
    }
  }
  return {};
}

}  // namespace

Outcome contradictory_batch_is_refused(const CheckContext& context) {
  Rig rig(context);
  if (!rig.session.ok()) return rig.session.outcome();
  if (const Status started = rig.start(); !started.ok()) return outcome_of(started);
  for (const Contradiction& contradiction : contradictions()) {
    Result<OwnedBatch> batch = rig.next_batch();
    if (!batch.ok()) return fail(batch.status().to_string());
    contradiction.spoil(&*batch);
    const Status status = submit(rig, *batch);
    if (status.ok()) return fail(describe(contradiction) + " was run");
    if (status.code() != StatusCode::kInvalidArgument) {
      return fail(describe(contradiction) +
                  " failed with another code than invalid_argument: " + status.to_string());
    }
    if (status.message().find(contradiction.field) == std::string::npos) {
      return fail(describe(contradiction) +
                  " was refused without naming the field: " + status.message());
    }
  }
  return pass();
}

Outcome refused_batch_changes_nothing(const CheckContext& context) {
  Rig rig(context);
  if (!rig.session.ok()) return rig.session.outcome();
  if (const Status started = rig.start(); !started.ok()) return outcome_of(started);
  const Request saved = rig.request;
  const Work work{&rig.request, 1, true};
  const Result<StepResult> expected = rig.driver->run(rig.eager(), {&work, 1});
  if (!expected.ok()) return fail(expected.status().to_string());
  const Result<std::vector<uint64_t>> before = rig.driver->page_hashes();
  if (!before.ok()) return fail("pages cannot be read: " + before.status().to_string());
  for (const Contradiction& contradiction : contradictions()) {
    rig.request = saved;
    Result<OwnedBatch> batch = rig.next_batch();
    if (!batch.ok()) return fail(batch.status().to_string());
    contradiction.spoil(&*batch);
    if (submit(rig, *batch).ok()) continue;  // rule E12
    if (const Status same = same_pages(rig, *before); !same.ok()) {
      return fail(describe(contradiction) + " was refused, yet " + same.message());
    }
    const Result<StepResult> again = rig.driver->run(rig.eager(), {&work, 1});
    if (!again.ok()) {
      return fail("after " + describe(contradiction) +
                  " the next step fails: " + again.status().to_string());
    }
    if (again->tokens != expected->tokens) {
      return fail("after " + describe(contradiction) + " the next step gives token " +
                  std::to_string(again->tokens[0]) + " in place of " +
                  std::to_string(expected->tokens[0]));
    }
  }
  return pass();
}

Outcome wait_can_be_repeated(const CheckContext& context) {
  Rig rig(context);
  if (!rig.session.ok()) return rig.session.outcome();
  if (const Status started = rig.start(); !started.ok()) return outcome_of(started);
  const Result<OwnedBatch> batch = rig.next_batch();
  if (!batch.ok()) return fail(batch.status().to_string());
  OwnedOutput output(1, rig.small.spec.vocab_size, {});
  const Result<Ticket> ticket = rig.eager().submit(batch->view(), output.view());
  if (!ticket.ok()) return fail(ticket.status().to_string());
  const Status first = rig.eager().wait(*ticket, 0);
  if (!first.ok() && first.code() != StatusCode::kDeadlineExceeded) {
    return fail("a wait of 0 us is neither done nor deadline_exceeded: " + first.to_string());
  }
  if (!first.ok()) {
    const Status second = rig.eager().wait(*ticket, kLongWaitUs);
    if (!second.ok()) {
      return fail("after a wait that ran out of time the ticket does not work any more: " +
                  second.to_string());
    }
  }
  const StepResult result = output.result();
  if (result.tokens[0] >= 0 && result.tokens[0] < rig.small.spec.vocab_size) return pass();
  return fail("wait says that the step is done, but its token is " +
              std::to_string(result.tokens[0]));
}

}  // namespace encore::check
