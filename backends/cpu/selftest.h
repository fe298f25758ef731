// A quick known-answer run: does this machine compute what the specification says?
#pragma once

#include "encore/status.h"
#include "kernels/cpu/cpu_features.h"
#include "thread_team.h"

namespace encore::cpu {

// Runs a quantised product at `level` on the whole team and compares it, bit for bit, with the
// plain kernels. Errors: kInternal naming the first element that differs.
Status selftest(ThreadTeam& team, kernels::IsaLevel level);

}  // namespace encore::cpu
