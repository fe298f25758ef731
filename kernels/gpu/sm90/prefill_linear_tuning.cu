#include <algorithm>
#include <cstdio>

#include "sm90/prefill_linear_tuning.h"

namespace encore::gpu {
namespace {

int divide_up(int a, int b) { return (a + b - 1) / b; }

// Cycles that a product might take, to order tunings by. The rates are of an H200 at work: bytes a
// cycle of the device's memory, bytes a cycle and multiprocessor of its L2 cache.
double estimate(const PrefillLinearProblem& q, const PrefillTuning& t, int num_sms) {
  constexpr double kMemoryRate = 2500.0;
  constexpr double kCacheRate = 26.0;
  constexpr double kTileCycles = 1500.0;
  constexpr double kExchangeCycles = 3000.0;
  constexpr double kStartCycles = 2500.0;  // hidden where two products share a multiprocessor
  const int steps = q.k / kPrefillStepK / t.split;
  const int super = prefill_super_rows(q, t) * prefill_super_columns(q, t);
  const int clusters = std::max(1, num_sms / t.cluster()) * t.blocks_per_sm;
  const int waves = divide_up(super, clusters);
  // Narrow tiles read more shared memory for a product; blocks of a cluster wait for each other.
  const double slowdown = 1.0 + 16.0 / t.tile_n + 0.01 * (t.cluster() - 1);
  const double products =
      slowdown * static_cast<double>(waves) * t.blocks_per_sm * steps * 4 * t.tile_n;
  const double weights = 2.0 * q.n * q.k;
  const double rows = 2.0 * q.rows.maximum * (q.k + prefill_out_n(q));
  const double step_bytes = static_cast<double>(kPrefillXBytes) / t.column_blocks +
                            static_cast<double>(t.tile_n) * kPrefillRowBytes / t.row_blocks;
  const double cached =
      static_cast<double>(super) * t.cluster() * steps * step_bytes / (num_sms * kCacheRate);
  double cycles = std::max({products, (weights + rows) / kMemoryRate, cached});
  cycles += waves * kTileCycles;
  if (t.split > 1) cycles += kExchangeCycles;
  if (t.blocks_per_sm == 1) cycles += kStartCycles;
  return cycles;
}

}  // namespace

int prefill_num_sms() {
  int device = 0;
  int num_sms = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  if (cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) {
    return 0;
  }
  return num_sms;
}

PrefillForm find_prefill_form(PrefillEpilogue epilogue, const PrefillTuning& tuning) {
  switch (epilogue) {
    case PrefillEpilogue::kSiluMul:
      return find_prefill_silu_mul(tuning);
    case PrefillEpilogue::kAdd:
      return find_prefill_add(tuning);
    case PrefillEpilogue::kStore:
      break;
  }
  return find_prefill_store(tuning);
}

int prefill_out_n(const PrefillLinearProblem& problem) {
  return problem.epilogue == PrefillEpilogue::kSiluMul ? problem.n / 2 : problem.n;
}
int prefill_super_rows(const PrefillLinearProblem& problem, const PrefillTuning& tuning) {
  return divide_up(problem.rows.maximum, kPrefillTileM * tuning.row_blocks);
}
int prefill_super_columns(const PrefillLinearProblem& problem, const PrefillTuning& tuning) {
  const int out_tile_n =
      problem.epilogue == PrefillEpilogue::kSiluMul ? tuning.tile_n / 2 : tuning.tile_n;
  return divide_up(prefill_out_n(problem), out_tile_n * tuning.column_blocks);
}

bool prefill_tuning_valid(const PrefillLinearProblem& problem, const PrefillTuning& t) {
  if (t.cluster() > 8 || problem.k / kPrefillStepK % t.split != 0) return false;
  return find_prefill_form(problem.epilogue, t).kernel != nullptr;
}

std::vector<PrefillTuning> all_prefill_tunings(const PrefillLinearProblem& problem) {
  std::vector<PrefillTuning> found;
  for (const int tile_n : {256, 224, 192, 128, 96}) {
    for (const int split : {1, 2, 4}) {
      for (const int blocks_per_sm : {1, 2}) {
        for (const int row_blocks : {1, 2}) {
          for (const int column_blocks : {1, 2, 4}) {
            const PrefillTuning t{tile_n, split, blocks_per_sm, row_blocks, column_blocks};
            if (prefill_tuning_valid(problem, t)) found.push_back(t);
          }
        }
      }
    }
  }
  return found;
}

// A cluster is no larger than the problem.
std::vector<PrefillTuning> prefill_tunings(const PrefillLinearProblem& problem, int num_sms,
                                           int most) {
  if (num_sms <= 0 || !prefill_linear_serves(problem)) return {};
  std::vector<PrefillTuning> found = all_prefill_tunings(problem);
  std::erase_if(found, [&](const PrefillTuning& t) {
    const PrefillTuning alone{t.tile_n};
    return (t.row_blocks > 1 && prefill_super_rows(problem, alone) < t.row_blocks) ||
           (t.column_blocks > 1 && prefill_super_columns(problem, alone) < t.column_blocks);
  });
  std::stable_sort(found.begin(), found.end(), [&](const PrefillTuning& a, const PrefillTuning& b) {
    return estimate(problem, a, num_sms) < estimate(problem, b, num_sms);
  });
  if (found.size() > static_cast<size_t>(most)) found.resize(static_cast<size_t>(most));
  return found;
}

int32_t prefill_linear_num_variants(const PrefillLinearProblem& problem) {
  return static_cast<int32_t>(prefill_tunings(problem, prefill_num_sms()).size());
}

std::string prefill_linear_variant_name(const PrefillLinearProblem& problem, int32_t variant) {
  const std::vector<PrefillTuning> tunings = prefill_tunings(problem, prefill_num_sms());
  if (variant < 0 || variant >= static_cast<int32_t>(tunings.size())) return {};
  return prefill_tuning_name(tunings[static_cast<size_t>(variant)]);
}

std::string prefill_tuning_name(const PrefillTuning& t) {
  char text[64];
  std::snprintf(text, sizeof(text), "128x%d %dx%d k/%d%s", t.tile_n, t.row_blocks, t.column_blocks,
                t.split, t.blocks_per_sm == 2 ? " 2/SM" : "");
  return text;
}

LaunchError prefill_linear_plan(const PrefillLinearProblem& problem, int32_t variant,
                                PrefillLinearPlan* plan) {
  const std::vector<PrefillTuning> tunings = prefill_tunings(problem, prefill_num_sms());
  if (variant < 0 || variant >= static_cast<int32_t>(tunings.size())) return cudaErrorInvalidValue;
  return prefill_linear_plan_tuned(problem, tunings[static_cast<size_t>(variant)], plan);
}

}  // namespace encore::gpu
