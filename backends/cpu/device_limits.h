// What the machine can do at best, measured now.
#pragma once

#include "encore/backend.h"
#include "kernels/cpu/cpu_features.h"
#include "thread_team.h"

namespace encore::cpu {

// Read bandwidth from memory with all threads, and the rate of quantised matrix products whose
// operands stay in cache. About 0.3 s.
DeviceLimits measure_limits(ThreadTeam& team, kernels::IsaLevel level);

}  // namespace encore::cpu
