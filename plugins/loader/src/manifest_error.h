// How a manifest is refused: a LoadFailure for programs beside the Status for callers.
#pragma once

#include "encore/loader/load_failure.h"
#include "encore/status.h"

namespace encore {

// `failure` as a Status that names its file; puts it into `*out` unless that is null.
inline Status manifest_error(const LoadFailure& failure, LoadFailure* out) {
  if (out != nullptr) *out = failure;
  return invalid_argument("manifest " + failure.path + ": " + failure.message);
}

}  // namespace encore
