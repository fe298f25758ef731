// What this process holds: for rules that nothing may grow.
#pragma once

#include <cstdint>
#include <string>

#include "encore/status.h"

namespace encore::check {

// Sanitizers keep freed memory: growth says nothing under them.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

struct ProcessUsage {
  int64_t resident_bytes = 0;
  int64_t threads = 0;
  int64_t descriptors = 0;
};

ProcessUsage process_usage();

// Errors: kInternal if `now` has more threads or descriptors than `before`, or more than
// `slack_bytes` more memory. `what` says what happened in between.
Status check_growth(const ProcessUsage& before, const ProcessUsage& now, int64_t slack_bytes,
                    const std::string& what);

}  // namespace encore::check
