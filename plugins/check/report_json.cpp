#include <nlohmann/json.hpp>

#include "encore/backend_abi.h"
#include "encore/sdk/abi_text.h"
#include "outcome_text.h"
#include "report.h"
#include "rule_set.h"

namespace encore::check {
namespace {

nlohmann::ordered_json result_json(const RuleResult& result) {
  nlohmann::ordered_json json = {{"id", result.rule->id},
                                 {"title", result.rule->title},
                                 {"verdict", verdict_name(result.outcome.verdict)},
                                 {"message", sdk::valid_utf8(result.outcome.message)},
                                 {"seconds", result.seconds},
                                 {"documentation", documentation_of(*result.rule)},
                                 {"measurements", nlohmann::ordered_json::array()}};
  for (const Measurement& measurement : result.outcome.measurements) {
    json["measurements"].push_back(
        {{"name", measurement.name}, {"value", measurement.value}, {"unit", measurement.unit}});
  }
  return json;
}

}  // namespace

std::string report_json(const Report& report) {
  nlohmann::ordered_json json = {
      {"kit", "encore-plugin-check"},
      {"version", report.kit_version},
      {"abi", std::to_string(ENCORE_ABI_MAJOR) + "." + std::to_string(ENCORE_ABI_MINOR)},
      {"plugin", sdk::valid_utf8(report.plugin_path)},
      {"passed", count_of(report, Verdict::kPass)},
      {"failed", count_of(report, Verdict::kFail)},
      {"skipped", count_of(report, Verdict::kSkip)},
      {"rules", nlohmann::ordered_json::array()}};
  for (const RuleResult& result : report.results) json["rules"].push_back(result_json(result));
  return json.dump(2) + "\n";
}

}  // namespace encore::check
