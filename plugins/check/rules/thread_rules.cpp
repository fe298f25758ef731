// Rules T: threads. The table of them; the rules themselves are in concurrency_rules.cpp.
#include "rule.h"
#include "thread_rule_bodies.h"

namespace encore::check {

std::span<const Rule> thread_rules() {
  static constexpr Rule kRules[] = {
      {"T01", "Runners of two KV caches work at the same time",
       on_rig<runners_of_two_caches_work_at_once>, 120},
      {"T02", "Another thread than the submitting one may wait for a step",
       on_rig<another_thread_may_wait>},
      {"T03", "A runner may be captured while another one works",
       on_rig<capture_while_another_runner_works>, 120},
      {"T04", "Questions about the backend may come from many threads at once",
       on_rig<questions_from_many_threads>},
      {"T05", "A model may be loaded while another one decodes",
       on_rig<loading_while_another_model_decodes>, 120},
  };
  return kRules;
}

}  // namespace encore::check
