// Runs a tiny model once through each mode that a device claims, and compares.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "encore/backend.h"
#include "encore/status.h"

namespace encore {

// Two runs agree if no logit differs by more than this share of its row's range: bf16 stays well
// below, a wrong length, page or row is far above.
inline constexpr float kModeTolerance = 0.02F;

struct ModeTest {
  enum class State { kPassed, kFailed, kNotClaimed };

  std::string mode;  // "eager", "prefill full", ...: as in capability_names()
  State state = State::kNotClaimed;
  // Of all logits, from the eager runner's, as a share of the row's range. -1 if there was nothing
  // to compare.
  float largest_difference = -1.0F;
  std::string detail;  // what was run, or what went wrong
};

// Loads the model, runs two requests (a prefill step, then decode steps) eagerly, then each claimed
// graph on pages of its own. Two ranks are tried too if `with_ranks` and the device claims
// collectives. A failure of one mode does not keep the others from being tried. One entry a mode.
// REQUIRES: backend.init() succeeded.
std::vector<ModeTest> test_modes(Backend& backend, int32_t device, uint64_t capabilities,
                                 bool with_ranks);

}  // namespace encore
