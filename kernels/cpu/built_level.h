// The level up to which this library holds kernels. Sources that choose among levels (selectors)
// are compiled once for each library; what is above its level is never named, so it need not be
// there.
#pragma once

#include "kernels/cpu/cpu_features.h"

#ifndef ENCORE_CPU_BUILT_LEVEL  // an IsaLevel as a number; without one, the plain kernels alone
#define ENCORE_CPU_BUILT_LEVEL 0
#endif

namespace encore::kernels {

inline constexpr auto kBuiltLevel = static_cast<IsaLevel>(ENCORE_CPU_BUILT_LEVEL);
static_assert(kBuiltLevel >= IsaLevel::kGeneric && kBuiltLevel <= IsaLevel::kAmx);

}  // namespace encore::kernels
