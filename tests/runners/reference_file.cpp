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

ReferenceRow read_row(const Json& json) {
  ReferenceRow row;
  row.logits = json.at("logits").get<std::vector<float>>();
  if (json.contains("bf16_rms_error")) {
    row.bf16 = LogitError::of(json.at("bf16_max_error"), json.at("bf16_rms_error"),
                              static_cast<int64_t>(row.logits.size()));
  }
  return row;
}

ReferenceCase read_case(const Json& json) {
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
  for (const Json& row : json.at("rows")) {
    result.rows.emplace(row.at("position").get<int32_t>(), read_row(row));
  }
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

void LogitError::add(const LogitError& other) {
  max_ = std::max(max_, other.max_);
  sum_of_squares_ += other.sum_of_squares_;
  count_ += other.count_;
}

LogitError LogitError::of(double max, double rms, int64_t count) {
  LogitError error;
  error.max_ = max;
  error.sum_of_squares_ = rms * rms * static_cast<double>(count);
  error.count_ = count;
  return error;
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
    reference.cases.push_back(read_case(entry));
    for (const auto& [position, row] : reference.cases.back().rows) reference.bf16.add(row.bf16);
  }
  return reference;
}

}  // namespace encore::testing
