// From what a model file says about rotary embeddings to the table that kernels use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "encore/model_spec.h"
#include "encore/status.h"

namespace encore {

enum class RopeScaling { kNone, kLinear, kDynamic, kLlama3, kYarn };

// "default", "none", "linear", "dynamic", "llama3" or "yarn".
// Errors: kUnimplemented, naming `where`, the type and the supported ones.
Result<RopeScaling> parse_rope_scaling(std::string_view name, const std::string& where);

struct RopeParameters {
  RopeScaling scaling = RopeScaling::kNone;
  double theta = 10000.0;
  double factor = 1.0;            // by which the context was stretched
  double original_context = 0.0;  // tokens it was stretched from; llama3 and yarn
  double low_freq_factor = 1.0;   // llama3
  double high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0;      // yarn: turns over the original context at which stretching starts
  double beta_slow = 1.0;       // yarn: and is complete
  bool truncate = true;         // yarn: these two limits are moved to whole pairs
  double mscale = 0.0;          // yarn; 0 if not given
  double mscale_all_dim = 0.0;  // yarn; 0 if not given
  std::optional<double> attention_factor;  // yarn; else from the factor
  std::vector<double> divisors;            // of each pair's frequency, [head_dim / 2]; or empty
};

// The table is computed in double and rounded once. Dynamic scaling equals none up to the original
// context, to which the caller must keep.
// REQUIRES: head_dim is even and at least 2.
// Errors: kInvalidArgument, naming `where`, for a parameter out of range or a table that is not
// finite and positive.
Result<RopeSpec> make_rope(const RopeParameters& parameters, int64_t head_dim, RopeStyle style,
                           const std::string& where);

}  // namespace encore
