// Rules E on what belongs to the host's process and thread.
#include <string>

#include "error_rule_bodies.h"
#include "process_probe.h"
#include "raw_run.h"

namespace encore::check {
namespace {

// Looks before the library is mapped, with the plugin at work, and after its end.
Outcome stays(const CheckContext& context, ProcessState (*state)()) {
  const ProcessState before = state();
  {
    const RawSession session(context);
    if (!session.ok()) return session.outcome();
    if (const std::string change = difference(before, state()); !change.empty()) {
      return fail("after init() " + change);
    }
    if (session.table().selftest != nullptr) {
      raw_call(session.table().selftest, session.backend(), session.device());
    }
    Tailor tailor(Cut::kExact);
    static_cast<void>(raw_run(session, tailor));
    if (const std::string change = difference(before, state()); !change.empty()) {
      return fail("after a self-test and a few steps " + change);
    }
  }
  const std::string change = difference(before, state());
  return change.empty() ? pass() : fail("after shutdown() " + change);
}

}  // namespace

Outcome signals_stay(const CheckContext& context) { return stays(context, signal_state); }

Outcome floating_point_control_stays(const CheckContext& context) {
  return stays(context, floating_point_state);
}

Outcome affinity_stays(const CheckContext& context) { return stays(context, affinity_state); }

Outcome environment_stays(const CheckContext& context) { return stays(context, environment_state); }

}  // namespace encore::check
