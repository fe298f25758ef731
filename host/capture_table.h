// The capture report for people: bytes per bucket.
#pragma once

#include <string>
#include <vector>

#include "session_summary.h"

namespace encore {

// "prefill full 9 buckets, decode 3 buckets, 12.3 MB": one line.
std::string describe_capture(const CaptureSummary& summary);

// A row a bucket, then sums; starts on a new line.
std::string capture_table(const CaptureSummary& summary);

// A line for each bucket that was not captured, with the reason.
std::vector<std::string> skipped_buckets(const CaptureSummary& summary);

// "off", "full" or "breakable".
std::string prefill_mode_name(PrefillMode mode);

}  // namespace encore
