#include "report_json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace encore {

using Json = nlohmann::ordered_json;

Json dispatch_json(const DispatchStats& stats) {
  Json json;
  json["replays"] = stats.graph_replays;
  json["eager_fallbacks"] = stats.eager_fallbacks;
  json["eager_samples"] = stats.eager_samples;
  Json reasons = Json::object();
  for (int32_t i = 0; i < kNumReasons; ++i) {
    const int64_t count = stats.fallbacks_by_reason[i];
    if (count > 0) reasons[std::string(reason_name(static_cast<Reason>(i)))] = count;
  }
  json["fallbacks_by_reason"] = reasons;
  Json buckets = Json::array();
  for (const BucketCount& bucket : stats.buckets) {
    buckets.push_back({{"runner", runner_kind_name(bucket.kind)},
                       {"bucket", bucket.bucket},
                       {"replays", bucket.replays},
                       {"mean_us", std::isfinite(bucket.mean_us) ? Json(bucket.mean_us) : Json()}});
  }
  json["buckets"] = buckets;
  return json;
}

Json buckets_json(const CaptureReport& report) {
  Json buckets = Json::array();
  for (const BucketReport& bucket : report.buckets) {
    buckets.push_back({{"bucket", bucket.bucket},
                       {"reason", reason_name(bucket.reason)},
                       {"arena_bytes", bucket.arena_bytes},
                       {"executable_bytes", bucket.executable_bytes},
                       {"workspace_bytes", bucket.workspace_bytes},
                       {"nodes", bucket.num_nodes},
                       {"segments", bucket.num_segments},
                       {"capture_us", bucket.capture_us}});
  }
  return buckets;
}

}  // namespace encore
