// Why a stage failed: a LoadCode for programs beside the Status for callers.
#pragma once

#include <utility>

#include "encore/loader/load_failure.h"
#include "encore/status.h"

namespace encore {

// `status` itself; puts `code` into `*out` unless that is null.
inline Status stage_error(LoadCode* out, LoadCode code, Status status) {
  if (out != nullptr) *out = code;
  return status;
}

}  // namespace encore
