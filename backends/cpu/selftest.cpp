#include "selftest.h"

#include <cmath>
#include <string>

#include "selftest_parts.h"

namespace encore::cpu {

Status expect_near(const std::string& what, int64_t index, double found, double expected,
                   double tolerance) {
  if (std::abs(found - expected) <= tolerance) return {};
  return internal_error("the self-test of " + what + ": element " + std::to_string(index) + " is " +
                        std::to_string(found) + "; the specification gives " +
                        std::to_string(expected));
}

Status selftest(ThreadTeam& team, kernels::IsaLevel level) {
  for (const auto part : {test_linear, test_elementwise, test_rope, test_attention, test_sample}) {
    const Status status = part(team, level);
    if (!status.ok()) {
      return internal_error(status.message() + "; at level " + kernels::isa_level_name(level));
    }
  }
  return {};
}

}  // namespace encore::cpu
