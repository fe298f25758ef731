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
  int32_t depth = 0;                         // tokens in the cache before; generation only
  std::string skipped;                       // why there are no figures; empty if there are
  std::vector<double> samples_tokens_per_s;  // one a repetition, all requests together
  Statistics tokens_per_s;
  double step_us = 0.0;        // median
  double bytes_per_s = 0.0;    // weights, once a step, and KV cache read
  double ops_per_s = 0.0;      // of the linears; a multiply-add is two
  double share_of_peak = 0.0;  // of the limit that the test is nearer to; 0 if none is known
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
