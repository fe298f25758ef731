// What came of a load: totals, percentiles, failures.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bench_serve_reply.h"

namespace encore {

struct Percentiles {
  size_t count = 0;
  double mean = 0.0;
  double p50 = 0.0;
  double p90 = 0.0;
  double p95 = 0.0;
  double p99 = 0.0;
  double max = 0.0;
};

// Exact: all values are sorted, and what lies between two is interpolated linearly. All zero for no
// values.
Percentiles percentiles_of(std::vector<double> values);

struct LoadFailures {
  int64_t count = 0;
  std::string first_message;
};

// Rates are per second of `duration_s`; times are seconds of the requests that completed.
struct LoadSummary {
  double duration_s = 0.0;  // first request sent to last answer ended
  int64_t completed = 0;
  int64_t failed = 0;
  int64_t prompt_tokens = 0;  // of completed requests
  int64_t output_tokens = 0;
  bool all_usage_reported = true;            // token counts are the server's own
  std::map<int32_t, LoadFailures> failures;  // by HTTP status; 0: no answer; 200: a broken stream
  Percentiles first_token;
  Percentiles inter_token;       // every gap of every request
  Percentiles per_output_token;  // a request's (last - first) / (tokens - 1)
  Percentiles end_to_end;
  Percentiles prompt_lengths;
  Percentiles output_lengths;

  double per_second(int64_t amount) const {
    return duration_s > 0.0 ? static_cast<double>(amount) / duration_s : 0.0;
  }
};

LoadSummary summarize(const std::vector<LoadRecord>& records, double duration_s);

// What was measured, in words.
struct LoadHeader {
  std::string url;
  std::string model;
  std::string endpoint;
  std::string load;     // "Poisson arrivals, 4 a second"
  std::string lengths;  // "prompts of 128 tokens, replies of 64"
  int64_t requests = 0;
  uint64_t seed = 0;
};

std::string load_table(const LoadHeader& header, const LoadSummary& summary);
std::string load_json(const LoadHeader& header, const LoadSummary& summary);

}  // namespace encore
