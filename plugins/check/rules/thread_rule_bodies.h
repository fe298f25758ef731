// The rules T, one function each; thread_rules.cpp gives them their numbers.
#pragma once

#include "encore/status.h"
#include "graph_rig.h"

namespace encore::check {

// concurrency_rules.cpp
Status runners_of_two_caches_work_at_once(Rig& rig);
Status another_thread_may_wait(Rig& rig);
Status capture_while_another_runner_works(Rig& rig);
Status questions_from_many_threads(Rig& rig);
Status loading_while_another_model_decodes(Rig& rig);

}  // namespace encore::check
