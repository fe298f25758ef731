// A quick known-answer run: does this machine compute what the specification says? The choice of a
// CPU variant rests on it, so every kind of kernel that a level replaces has its part.
#pragma once

#include "encore/status.h"
#include "kernels/cpu/cpu_features.h"
#include "thread_team.h"

namespace encore::cpu {

// Runs matrix products, elementwise kernels, rotation, attention and sampling at `level` on the
// whole team, in a few milliseconds. Errors: kInternal naming kernel, element, what was found and
// what was expected.
Status selftest(ThreadTeam& team, kernels::IsaLevel level);

}  // namespace encore::cpu
