// Parts that several JSON reports have in common.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "encore/capture_report.h"
#include "engine/dispatch.h"

namespace encore {

// Replays, fallbacks by reason, and replays of each bucket.
nlohmann::ordered_json dispatch_json(const DispatchStats& stats);
// [{bucket, reason, arena_bytes, ...}], in the report's order.
nlohmann::ordered_json buckets_json(const CaptureReport& report);

}  // namespace encore
