// The self-test's parts, one for each kind of kernel. Internal to selftest*.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "encore/status.h"
#include "kernels/cpu/cpu_features.h"
#include "thread_team.h"

namespace encore::cpu {

Status test_linear(ThreadTeam& team, kernels::IsaLevel level);
Status test_elementwise(ThreadTeam& team, kernels::IsaLevel level);  // norm, activation
Status test_rope(ThreadTeam& team, kernels::IsaLevel level);
Status test_attention(ThreadTeam& team, kernels::IsaLevel level);
Status test_sample(ThreadTeam& team, kernels::IsaLevel level);

// kInternal unless `found` is within `tolerance` of `expected`; a NaN never is.
Status expect_near(const std::string& what, int64_t index, double found, double expected,
                   double tolerance);

// Small numbers, the same on every machine.
class SmallRandom {
 public:
  uint32_t bits() {  // 16 of them
    state_ = state_ * 1664525U + 1013904223U;
    return state_ >> 16;
  }
  float number() { return static_cast<float>(bits() % 2001) / 1000.0F - 1.0F; }  // -1 .. 1

 private:
  uint32_t state_ = 1;
};

}  // namespace encore::cpu
