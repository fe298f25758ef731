// Sampling of rows over one level's loops.
//
// An Engine is one level's arithmetic over x[0 .. n):
//   static RowScan scan(const float* x, int32_t n)
//   static void weigh(const float* x, int32_t n, float maximum, float inverse_temperature,
//                     float* weights, double* chunk_sums)   weights may be x
//   static double sum_exp(const float* x, int32_t n, float maximum)
//   static int32_t next_above(const float* x, int32_t i, int32_t n, float threshold)
//       the lowest j >= i with x[j] > threshold, or n
//   static int32_t gather(const float* weights, int32_t n, float threshold, Candidate* list)
//       those with weight >= threshold, in order of id; returns how many
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cpu/sample.h"
#include "sample_filter.h"
#include "sample_philox.h"

namespace encore::kernels {

namespace {  // compiled once for each instruction set: must not be shared between them

struct RowScan {
  float maximum;   // -infinity if there is nothing above it
  int32_t argmax;  // the lowest id that has it
  bool finite;     // no NaN and no +infinity
};

// A thread's scratch.
struct SampleScratch {
  float* weights;      // [n]
  double* chunk_sums;  // [n / kSampleChunk, rounded up]
  Candidate* list;     // [n]

  SampleScratch(std::byte* scratch, int32_t n) {
    const int64_t padded = (static_cast<int64_t>(n) + kSampleChunk - 1) / kSampleChunk;
    weights = reinterpret_cast<float*>(scratch);
    chunk_sums = reinterpret_cast<double*>(weights + padded * kSampleChunk);
    list = reinterpret_cast<Candidate*>(chunk_sums + padded);
  }
};

inline int32_t pending_token(const SampleArgs& args, int32_t row) {
  if (args.token_ids == nullptr) return -1;
  const int32_t input = args.logit_rows[row];
  return args.token_ids[input] < 0 ? args.input_tokens[input] : -1;
}

inline bool has_penalty(const RowSampling& p) {
  return p.repetition_penalty != 1.0F || p.presence_penalty != 0.0F || p.frequency_penalty != 0.0F;
}

// True if the row's logits are changed before sampling.
inline bool row_is_edited(const SampleArgs& args, int32_t row) {
  if (args.bias_start != nullptr && args.bias_start[row] < args.bias_start[row + 1]) return true;
  return has_penalty(args.params[row]);
}

inline void penalise(const RowSampling& p, int32_t output_count, float* x) {
  *x = *x > 0.0F ? *x / p.repetition_penalty : *x * p.repetition_penalty;
  if (output_count > 0) {
    *x -= p.frequency_penalty * static_cast<float>(output_count) + p.presence_penalty;
  }
}

inline void edit_row(const SampleArgs& args, int32_t row, float* x) {
  const int32_t n = *args.num_valid_tokens;
  if (args.bias_start != nullptr) {
    for (int32_t i = args.bias_start[row]; i < args.bias_start[row + 1]; ++i) {
      const TokenBias& entry = args.biases[i];
      if (entry.token >= 0 && entry.token < n) x[entry.token] += entry.bias;
    }
  }
  const RowSampling& p = args.params[row];
  if (!has_penalty(p)) return;
  int32_t pending = pending_token(args, row);
  if (args.history_start != nullptr) {
    for (int32_t i = args.history_start[row]; i < args.history_start[row + 1]; ++i) {
      const TokenCount& seen = args.history[i];
      const int32_t token = seen.token;
      int32_t output_count = seen.in_output;
      if (token == pending) {
        ++output_count;
        pending = -1;
      }
      if (token < 0 || token >= n || seen.in_prompt + output_count <= 0) continue;
      penalise(p, output_count, &x[token]);
    }
  }
  if (pending >= 0 && pending < n) penalise(p, 1, &x[pending]);
}

// The `count` highest of x, falling, lowest id first among equals; returns how many there are.
template <typename Engine>
int32_t highest(const float* x, int32_t n, int32_t count, int32_t* tokens, float* values) {
  int32_t found = 0;
  float threshold = -std::numeric_limits<float>::infinity();
  for (int32_t i = 0; (i = Engine::next_above(x, i, n, threshold)) < n; ++i) {
    int32_t at = found < count ? found++ : count - 1;
    for (; at > 0 && values[at - 1] < x[i]; --at) {
      values[at] = values[at - 1];
      tokens[at] = tokens[at - 1];
    }
    values[at] = x[i];
    tokens[at] = i;
    if (found == count) threshold = values[count - 1];
  }
  return found;
}

template <typename Engine>
void report_highest(const SampleArgs& args, int32_t row, const float* x, double log_sum) {
  if (args.top_tokens == nullptr || args.max_logprobs <= 0) return;
  int32_t* tokens = args.top_tokens + static_cast<int64_t>(row) * args.max_logprobs;
  float* values = args.top_logprobs + static_cast<int64_t>(row) * args.max_logprobs;
  const int32_t wanted = std::min(args.params[row].num_logprobs, args.max_logprobs);
  int32_t found = 0;
  if (wanted > 0) found = highest<Engine>(x, *args.num_valid_tokens, wanted, tokens, values);
  for (int32_t i = 0; i < found; ++i) {
    values[i] = static_cast<float>(static_cast<double>(values[i]) - log_sum);
  }
  std::fill(tokens + found, tokens + args.max_logprobs, -1);
  std::fill(values + found, values + args.max_logprobs, -std::numeric_limits<float>::infinity());
}

// Fills `list` with candidates, in any order, so that those left after min_p, top_k and top_p are
// surely among them; returns how many. `*mass` is the weight that top_p is a share of.
template <typename Engine>
int32_t shortlist(const SampleScratch& scratch, int32_t n, float min_weight, int32_t top_k,
                  float top_p, double* mass) {
  double total = 0.0;
  for (int32_t c = 0; c < (n + kSampleChunk - 1) / kSampleChunk; ++c) {
    total += scratch.chunk_sums[c];
  }
  // Most tokens weigh next to nothing: try the heavy ones first.
  for (const float guess : {1e-2F, 1e-3F, 1e-4F, 1e-6F, std::numeric_limits<float>::min()}) {
    const float threshold = std::max(guess, min_weight);
    int32_t count = Engine::gather(scratch.weights, n, threshold, scratch.list);
    const bool complete = threshold > guess || guess == std::numeric_limits<float>::min();
    if (top_k > 0 && (complete || count >= top_k)) {
      count = keep_first(scratch.list, count, top_k);
      *mass = sum_of_weights(scratch.list, scratch.list + count);
      return count;
    }
    const double listed = sum_of_weights(scratch.list, scratch.list + count);
    *mass = min_weight > 0.0F ? listed : total;
    if (complete || (top_k <= 0 && min_weight <= 0.0F && listed >= total * top_p)) return count;
  }
  return 0;  // not reached: the last guess is complete
}

template <typename Engine>
int32_t draw(const RowSampling& p, const float* x, int32_t n, float maximum,
             const SampleScratch& scratch) {
  Engine::weigh(x, n, maximum, 1.0F / p.temperature, scratch.weights, scratch.chunk_sums);
  const double uniform = uniform_of(p.seed, p.position);
  const bool top_k = p.top_k > 0 && p.top_k < n;
  const float min_weight = std::min(p.min_p, 1.0F);
  if (!top_k && min_weight <= 0.0F && p.top_p >= 1.0F) {
    return pick_from_all(scratch.weights, n, scratch.chunk_sums, uniform);
  }
  double mass = 0.0;
  int32_t count = shortlist<Engine>(scratch, n, min_weight, top_k ? p.top_k : 0, p.top_p, &mass);
  if (p.top_p < 1.0F) count = keep_mass(scratch.list, count, mass * static_cast<double>(p.top_p));
  // The filters left the list in no order: gather what ranks up to its last again, by id.
  const Candidate last = *std::max_element(scratch.list, scratch.list + count, ranks_before);
  count = Engine::gather(scratch.weights, n, last.weight, scratch.list);
  count = drop_after(last, scratch.list, count);
  return pick_from_list(scratch.list, count, uniform);
}

inline void fail_row(const SampleArgs& args, int32_t row, RowStatus status) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  args.tokens[row] = -1;
  args.row_status[row] = static_cast<int32_t>(status);
  if (args.params[row].num_logprobs < 0) return;
  if (args.token_logprobs != nullptr) args.token_logprobs[row] = kNone;
  if (args.top_tokens == nullptr || args.max_logprobs <= 0) return;
  const int64_t first = static_cast<int64_t>(row) * args.max_logprobs;
  std::fill_n(args.top_tokens + first, args.max_logprobs, -1);
  std::fill_n(args.top_logprobs + first, args.max_logprobs, kNone);
}

template <typename Engine>
void sample_row(const SampleArgs& args, int32_t row, const SampleScratch& scratch) {
  const int32_t n = *args.num_valid_tokens;
  const RowSampling& p = args.params[row];
  const float* raw = args.logits + row * args.logits_stride;
  const RowScan raw_scan = Engine::scan(raw, n);
  if (!raw_scan.finite) return fail_row(args, row, RowStatus::kNotFinite);

  RowScan scan = raw_scan;
  const float* x = raw;
  if (row_is_edited(args, row)) {
    std::copy_n(raw, n, scratch.weights);
    edit_row(args, row, scratch.weights);
    x = scratch.weights;
    scan = Engine::scan(x, n);
    if (!scan.finite) return fail_row(args, row, RowStatus::kNotFinite);
  }
  if (scan.maximum == -std::numeric_limits<float>::infinity()) {
    return fail_row(args, row, RowStatus::kNoCandidate);
  }

  const bool greedy = !(p.temperature > kGreedyTemperature);
  const int32_t token = greedy ? scan.argmax : draw<Engine>(p, x, n, scan.maximum, scratch);
  args.tokens[row] = token;
  args.row_status[row] = static_cast<int32_t>(RowStatus::kOk);
  if (p.num_logprobs < 0) return;
  const double log_sum = raw_scan.maximum + std::log(Engine::sum_exp(raw, n, raw_scan.maximum));
  if (args.token_logprobs != nullptr) {
    args.token_logprobs[row] = static_cast<float>(static_cast<double>(raw[token]) - log_sum);
  }
  report_highest<Engine>(args, row, raw, log_sum);
}

template <typename Engine>
void sample_rows(const SampleArgs& args, const Worker& worker) {
  const SampleScratch scratch(worker.scratch, *args.num_valid_tokens);
  for (int32_t row = worker.index; row < *args.num_rows; row += worker.count) {
    sample_row<Engine>(args, row, scratch);
  }
}

}  // namespace
}  // namespace encore::kernels
