#include "outcome_text.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "encore/sdk/abi_text.h"

namespace encore::check {

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "pass";
    case Verdict::kFail:
      return "fail";
    case Verdict::kSkip:
      return "skip";
  }
  return "unknown";
}

std::string outcome_to_text(const Outcome& outcome) {
  nlohmann::json json = {{"verdict", static_cast<int32_t>(outcome.verdict)},
                         {"message", sdk::valid_utf8(outcome.message)},
                         {"measurements", nlohmann::json::array()}};
  for (const Measurement& measurement : outcome.measurements) {
    json["measurements"].push_back({{"name", sdk::valid_utf8(measurement.name)},
                                    {"value", measurement.value},
                                    {"unit", sdk::valid_utf8(measurement.unit)}});
  }
  return json.dump();
}

Result<Outcome> outcome_from_text(const std::string& text) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    const int32_t verdict = json.at("verdict").get<int32_t>();
    if (verdict < static_cast<int32_t>(Verdict::kPass) ||
        verdict > static_cast<int32_t>(Verdict::kSkip)) {
      return data_loss("its verdict is " + std::to_string(verdict));
    }
    Outcome outcome;
    outcome.verdict = static_cast<Verdict>(verdict);
    outcome.message = json.at("message").get<std::string>();
    for (const nlohmann::json& entry : json.at("measurements")) {
      // Numbers that are not finite have no JSON form: null.
      const nlohmann::json& value = entry.at("value");
      outcome.measurements.push_back({entry.at("name").get<std::string>(),
                                      value.is_number() ? value.get<double>() : 0.0,
                                      entry.at("unit").get<std::string>()});
    }
    return outcome;
  } catch (const nlohmann::json::exception& error) {
    return data_loss(error.what());
  }
}

}  // namespace encore::check
