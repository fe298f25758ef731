// What the process's exit code says.
#pragma once

#include "encore/status.h"

namespace encore {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;        // something failed at run time
inline constexpr int kExitUsage = 2;          // the command line or the configuration is wrong
inline constexpr int kExitInterrupted = 130;  // SIGINT, as a shell reports it

// Invalid arguments are the user's to put right: kExitUsage; any other error is kExitFailure.
constexpr int exit_code_of(StatusCode code) {
  if (code == StatusCode::kOk) return kExitOk;
  return code == StatusCode::kInvalidArgument ? kExitUsage : kExitFailure;
}

}  // namespace encore
