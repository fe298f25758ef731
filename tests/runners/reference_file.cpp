#include "reference_file.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace encore::testing {
namespace {

using Json = nlohmann::json;

void read_rows(const Json& json, ReferenceCase& result, std::optional<LogitError>& bf16) {
  for (const Json& row : json.at("rows")) {
    auto logits = row.at("logits").get<std::vector<float>>();
    if (row.contains("bf16_rms_error")) {
      if (!bf16) bf16.emplace();
      bf16->add(row.at("bf16_max_error"), row.at("bf16_rms_error"),
                static_cast<int64_t>(logits.size()));
    }
    result.rows.emplace(row.at("position").get<int32_t>(), std::move(logits));
  }
}

ReferenceCase read_case(const Json& json, std::optional<LogitError>& bf16) {
  ReferenceCase result;
  result.name = json.at("name");
  result.tokens = json.at("prompt_ids").get<std::vector<int32_t>>();
  result.prompt_length = static_cast<int32_t>(result.tokens.size());
  const auto greedy = json.at("greedy_ids").get<std::vector<int32_t>>();
  result.tokens.insert(result.tokens.end(), greedy.begin(), greedy.end());
  const Json& steps = json.at("steps");
  const auto best = steps.at("top1_logits").get<std::vector<float>>();
  const auto second = steps.at("top2_logits").get<std::vector<float>>();
  if (best.size() != greedy.size() || second.size() != greedy.size()) {
    throw std::runtime_error("case " + result.name + " has not one top-2 gap per greedy token");
  }
  for (size_t i = 0; i < best.size(); ++i) result.gaps.push_back(best[i] - second[i]);
  read_rows(json, result, bf16);
  return result;
}

}  // namespace

void LogitError::add(const std::vector<float>& found, const std::vector<float>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    double error = std::fabs(static_cast<double>(found[i]) - static_cast<double>(expected[i]));
    if (!std::isfinite(error)) error = std::numeric_limits<double>::infinity();
    max_ = std::max(max_, error);
    sum_of_squares_ += error * error;
  }
  count_ += static_cast<int64_t>(expected.size());
}

void LogitError::add(double max, double rms, int64_t count) {
  max_ = std::max(max_, max);
  sum_of_squares_ += rms * rms * static_cast<double>(count);
  count_ += count;
}

double LogitError::rms() const {
  return count_ == 0 ? 0.0 : std::sqrt(sum_of_squares_ / static_cast<double>(count_));
}

Reference read_reference(const std::string& path) {
  std::ifstream file(path);
  if (!file.good()) throw std::runtime_error("cannot read " + path);
  const Json json = Json::parse(file);
  Reference reference;
  reference.text = json.at("reference");
  for (const Json& entry : json.at("cases")) {
    reference.cases.push_back(read_case(entry, reference.bf16));
  }
  return reference;
}

}  // namespace encore::testing
