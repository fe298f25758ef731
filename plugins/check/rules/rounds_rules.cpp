// Rules L on what rounds of init and shutdown leave behind.
#include <algorithm>
#include <string>
#include <vector>

#include "load_rule_bodies.h"
#include "process_probe.h"
#include "raw_run.h"

namespace encore::check {
namespace {

constexpr int kRounds = 100;
constexpr int kQuickRounds = 20;
// Libraries allocate what they keep for ever in the first rounds.
constexpr int kWarmUpRounds = 5;
constexpr int64_t kAllowedBytesPerRound = 32 << 10;  // below it the allocator's own noise

int rounds_of(const CheckContext& context) { return context.quick ? kQuickRounds : kRounds; }

// Runs `count` rounds; a round that fails is a fault.
std::string run_rounds(RawSession* session, int count) {
  for (int round = 0; round < count; ++round) {
    session->shutdown();
    const Status started = session->init();
    if (!started.ok()) {
      return "init() failed in round " + std::to_string(round + 1) + ": " + started.to_string();
    }
  }
  session->shutdown();
  return "";
}

}  // namespace

Outcome rounds_leave_no_thread(const CheckContext& context) {
  RawSession session(context);
  if (!session.ok()) return session.outcome();
  if (const std::string fault = run_rounds(&session, kWarmUpRounds); !fault.empty()) {
    return fail(fault);
  }
  const int64_t before = settled_threads(1);
  if (const std::string fault = run_rounds(&session, rounds_of(context)); !fault.empty()) {
    return fail(fault);
  }
  const int64_t after = settled_threads(before);
  if (after <= before) return pass();
  return fail("after shutdown() there were " + std::to_string(before) + " threads, and " +
              std::to_string(after) + " after " + std::to_string(rounds_of(context)) +
              " more rounds; shutdown() must join every thread that init() starts");
}

Outcome rounds_leave_no_descriptor(const CheckContext& context) {
  RawSession session(context);
  if (!session.ok()) return session.outcome();
  if (const std::string fault = run_rounds(&session, kWarmUpRounds); !fault.empty()) {
    return fail(fault);
  }
  const int64_t before = count_descriptors();
  if (const std::string fault = run_rounds(&session, rounds_of(context)); !fault.empty()) {
    return fail(fault);
  }
  const int64_t after = count_descriptors();
  if (after <= before) return pass();
  return fail("after shutdown() there were " + std::to_string(before) + " descriptors, and " +
              std::to_string(after) + " after " + std::to_string(rounds_of(context)) +
              " more rounds; shutdown() must close what init() opens");
}

Outcome rounds_leave_no_memory(const CheckContext& context) {
  RawSession session(context);
  if (!session.ok()) return session.outcome();
  // Half of the rounds warm up; growth that goes on in the other half is a leak.
  const int rounds = rounds_of(context) / 2;
  if (const std::string fault = run_rounds(&session, rounds); !fault.empty()) return fail(fault);
  const int64_t before = resident_bytes();
  if (const std::string fault = run_rounds(&session, rounds); !fault.empty()) return fail(fault);
  const int64_t per_round = (resident_bytes() - before) / rounds;
  Outcome outcome = pass();
  if (per_round > kAllowedBytesPerRound) {
    outcome = fail("resident memory grows by " + std::to_string(per_round >> 10) +
                   " KiB with each round of init() and shutdown(); " +
                   std::to_string(kAllowedBytesPerRound >> 10) + " KiB are let pass as noise");
  }
  outcome.measurements.push_back(
      {"growth_per_round", static_cast<double>(per_round) / 1024.0, "KiB"});
  return outcome;
}

Outcome works_again_after_shutdown(const CheckContext& context) {
  RawSession session(context);
  if (!session.ok()) return session.outcome();
  Tailor tailor(Cut::kExact);
  const Result<RawRun> first = raw_run(session, tailor);
  if (!first.ok()) return skip("a small model does not run: " + first.status().to_string());
  session.shutdown();
  const Status started = session.init();
  if (!started.ok()) return fail("init() after shutdown() failed: " + started.to_string());
  const Result<RawRun> second = raw_run(session, tailor);
  if (!second.ok()) return fail("a model no longer runs: " + second.status().to_string());
  const std::string change = run_difference(*first, *second);
  return change.empty() ? pass() : fail("after shutdown() and init() " + change);
}

}  // namespace encore::check
