#include "graphs_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "capture_table.h"
#include "report_json.h"
#include "text_table.h"

namespace encore {
namespace {

using Json = nlohmann::ordered_json;

std::string replay_table(const DispatchStats& dispatch) {
  TextTable table({"runner", "bucket", "replays", "mean step"});
  for (const BucketCount& bucket : dispatch.buckets) {
    table.add_row({std::string(runner_kind_name(bucket.kind)), std::to_string(bucket.bucket),
                   std::to_string(bucket.replays), format_us(bucket.mean_us)});
  }
  return table.text();
}

std::string fallback_table(const DispatchStats& dispatch) {
  TextTable table({"steps that ran eagerly", "count"});
  table.add_row({"to be measured", std::to_string(dispatch.eager_samples)});
  for (int32_t i = 0; i < kNumReasons; ++i) {
    const int64_t count = dispatch.fallbacks_by_reason[i];
    if (count == 0) continue;
    table.add_row({std::string(reason_name(static_cast<Reason>(i))), std::to_string(count)});
  }
  return table.text();
}

std::string step_line(const TracedStep& step) {
  if (!step.missing.empty()) return step.what + ": no timeline: " + step.missing + "\n";
  double busy_us = 0.0;
  double end_us = 0.0;
  for (const TraceEvent& event : step.events) {
    busy_us += event.duration_us;
    end_us = std::max(end_us, event.start_us + event.duration_us);
  }
  return step.what + ": " + std::to_string(step.events.size()) + " events, " + format_us(busy_us) +
         " of work in " + format_us(end_us) + "\n";
}

Json step_json(const TracedStep& step) {
  Json json = {{"step", step.what}};
  if (!step.missing.empty()) json["missing"] = step.missing;
  Json events = Json::array();
  for (const TraceEvent& event : step.events) {
    events.push_back({{"name", event.name},
                      {"start_us", event.start_us},
                      {"duration_us", event.duration_us},
                      {"lane", event.lane}});
  }
  json["events"] = events;
  return json;
}

}  // namespace

std::string graphs_text(const GraphsReport& report) {
  std::string text = "model    " + report.model + "\nbackend  " + report.backend + ", " +
                     report.device + "\n\n" + capture_table(report.capture) + "\n" +
                     ledger_table(report.ledger) + "\n" + replay_table(report.dispatch) + "\n" +
                     fallback_table(report.dispatch) + "\n";
  for (const TracedStep& step : report.steps) text += step_line(step);
  return text;
}

std::string graphs_json(const GraphsReport& report) {
  Json json;
  json["model"] = report.model;
  json["backend"] = report.backend;
  json["device"] = report.device;
  json["capture"] = {{"prefill_mode", prefill_mode_name(report.capture.prefill_mode)},
                     {"prefill_buckets", buckets_json(report.capture.prefill)},
                     {"decode_buckets", buckets_json(report.capture.decode)}};
  json["memory"] = ledger_json(report.ledger);
  json["graphs"] = dispatch_json(report.dispatch);
  Json steps = Json::array();
  for (const TracedStep& step : report.steps) steps.push_back(step_json(step));
  json["steps"] = steps;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace encore
