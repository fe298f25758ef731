// Benchmark results as a table, as JSON and as CSV.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "encore/backend.h"
#include "statistics.h"

namespace encore {

// One line: a test on one kind of runner at one batch size.
struct BenchResult {
  std::string test;    // "prompt 512", "generate 128"
  std::string runner;  // "eager", "prefill_full", "prefill_breakable", "decode_graph"
  int32_t batch = 1;
  int32_t length = 0;                        // tokens of each request
  std::string skipped;                       // why there are no figures; empty if there are
  std::vector<double> samples_tokens_per_s;  // one a repetition, all requests together
  Statistics tokens_per_s;
  double step_us = 0.0;        // median
  double bytes_per_s = 0.0;    // weights and KV cache read; generation only
  double ops_per_s = 0.0;      // of the linears; prompts only
  double share_of_peak = 0.0;  // of the limit that binds the test; 0 if that is unknown
};

struct BenchHeader {
  std::string model;
  std::string backend;
  std::string device;
  DeviceLimits limits;  // measured in this run
  int32_t repetitions = 0;
};

std::string bench_table(const BenchHeader& header, const std::vector<BenchResult>& results);
std::string bench_json(const BenchHeader& header, const std::vector<BenchResult>& results);
std::string bench_csv(const std::vector<BenchResult>& results);

}  // namespace encore
