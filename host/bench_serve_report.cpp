#include "bench_serve_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "text_table.h"

namespace encore {
namespace {

using Json = nlohmann::ordered_json;

// REQUIRES: sorted, not empty; 0 <= share <= 1.
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - std::floor(place));
}

std::string what_failed(int32_t http_status) {
  if (http_status == 0) return "no answer";
  if (http_status == 200) return "broken stream";
  return "HTTP " + std::to_string(http_status);
}

void add_times(TextTable& table, const std::string& name, const Percentiles& times) {
  if (times.count == 0) return;
  std::vector<std::string> cells = {name};
  for (const double s : {times.mean, times.p50, times.p90, times.p95, times.p99, times.max}) {
    cells.push_back(format_us(s * 1e6));
  }
  table.add_row(std::move(cells));
}

Json times_json(const Percentiles& times) {
  return {{"count", times.count},      {"mean_ms", times.mean * 1e3}, {"p50_ms", times.p50 * 1e3},
          {"p90_ms", times.p90 * 1e3}, {"p95_ms", times.p95 * 1e3},   {"p99_ms", times.p99 * 1e3},
          {"max_ms", times.max * 1e3}};
}

Json lengths_json(const Percentiles& lengths) {
  return {{"mean", lengths.mean}, {"p50", lengths.p50}, {"p90", lengths.p90},
          {"p95", lengths.p95},   {"p99", lengths.p99}, {"max", lengths.max}};
}

}  // namespace

Percentiles percentiles_of(std::vector<double> values) {
  Percentiles result;
  if (values.empty()) return result;
  std::sort(values.begin(), values.end());
  double sum = 0.0;
  for (const double value : values) sum += value;
  result.count = values.size();
  result.mean = sum / static_cast<double>(values.size());
  result.p50 = quantile(values, 0.50);
  result.p90 = quantile(values, 0.90);
  result.p95 = quantile(values, 0.95);
  result.p99 = quantile(values, 0.99);
  result.max = values.back();
  return result;
}

LoadSummary summarize(const std::vector<LoadRecord>& records, double duration_s) {
  LoadSummary summary;
  summary.duration_s = duration_s;
  std::vector<double> first, gaps, per_token, ends, prompts, outputs;
  for (const LoadRecord& record : records) {
    if (!record.ok) {
      ++summary.failed;
      LoadFailures& failures = summary.failures[record.http_status];
      if (failures.count++ == 0) failures.first_message = record.error;
      continue;
    }
    ++summary.completed;
    summary.prompt_tokens += record.prompt_tokens;
    summary.output_tokens += record.output_tokens;
    summary.all_usage_reported = summary.all_usage_reported && record.usage_reported;
    ends.push_back(record.end_s);
    prompts.push_back(static_cast<double>(record.prompt_tokens));
    outputs.push_back(static_cast<double>(record.output_tokens));
    if (record.first_token_s < 0.0) continue;  // tokens without text
    first.push_back(record.first_token_s);
    gaps.insert(gaps.end(), record.gaps_s.begin(), record.gaps_s.end());
    if (record.output_tokens > 1) {
      per_token.push_back((record.last_token_s - record.first_token_s) /
                          static_cast<double>(record.output_tokens - 1));
    }
  }
  summary.first_token = percentiles_of(std::move(first));
  summary.inter_token = percentiles_of(std::move(gaps));
  summary.per_output_token = percentiles_of(std::move(per_token));
  summary.end_to_end = percentiles_of(std::move(ends));
  summary.prompt_lengths = percentiles_of(std::move(prompts));
  summary.output_lengths = percentiles_of(std::move(outputs));
  return summary;
}

std::string load_table(const LoadHeader& header, const LoadSummary& summary) {
  const auto rate = [&summary](int64_t amount) {
    return format_number(summary.per_second(amount), 1) + "/s";
  };
  std::string text = "server    " + header.url + header.endpoint + ", " + header.model;
  text += "\nload      " + std::to_string(header.requests) + " requests, " + header.load;
  text += "\nlengths   " + header.lengths;
  text += "\nduration  " + format_us(summary.duration_s * 1e6);
  text += "\nrequests  " + std::to_string(summary.completed) + " completed (" +
          rate(summary.completed) + "), " + std::to_string(summary.failed) + " failed";
  text += "\ninput     " + std::to_string(summary.prompt_tokens) + " tokens, " +
          rate(summary.prompt_tokens);
  text += "\noutput    " + std::to_string(summary.output_tokens) + " tokens, " +
          rate(summary.output_tokens);
  if (summary.completed > 0 && !summary.all_usage_reported) {
    text += "\nnote      the server reported no usage: output counts records, input is unknown";
  }
  text += "\n";
  for (const auto& [status, failures] : summary.failures) {
    text += "failed    " + what_failed(status) + ": " + std::to_string(failures.count);
    text += ", first: " + failures.first_message + "\n";
  }
  if (summary.completed == 0) return text;
  TextTable table({"", "mean", "p50", "p90", "p95", "p99", "max"});
  add_times(table, "time to first token", summary.first_token);
  add_times(table, "inter-token", summary.inter_token);
  add_times(table, "time per output token", summary.per_output_token);
  add_times(table, "end to end", summary.end_to_end);
  text += "\n" + table.text();
  return text;
}

std::string load_json(const LoadHeader& header, const LoadSummary& summary) {
  Json json = {{"url", header.url},
               {"endpoint", header.endpoint},
               {"model", header.model},
               {"load", header.load},
               {"lengths", header.lengths},
               {"requests", header.requests},
               {"seed", header.seed},
               {"duration_s", summary.duration_s},
               {"completed", summary.completed},
               {"failed", summary.failed},
               {"requests_per_s", summary.per_second(summary.completed)},
               {"prompt_tokens", summary.prompt_tokens},
               {"output_tokens", summary.output_tokens},
               {"prompt_tokens_per_s", summary.per_second(summary.prompt_tokens)},
               {"output_tokens_per_s", summary.per_second(summary.output_tokens)},
               {"usage_reported", summary.all_usage_reported}};
  Json failures = Json::array();
  for (const auto& [status, failure] : summary.failures) {
    failures.push_back({{"http_status", status},
                        {"count", failure.count},
                        {"first_message", failure.first_message}});
  }
  json["failures"] = failures;
  json["time_to_first_token"] = times_json(summary.first_token);
  json["inter_token"] = times_json(summary.inter_token);
  json["time_per_output_token"] = times_json(summary.per_output_token);
  json["end_to_end"] = times_json(summary.end_to_end);
  json["prompt_lengths"] = lengths_json(summary.prompt_lengths);
  json["output_lengths"] = lengths_json(summary.output_lengths);
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace encore
