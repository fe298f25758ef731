// Tunings of the prefill product, and the kernels that there are.
#pragma once

#include <string>
#include <vector>

#include "kernels/gpu/prefill_linear.h"
#include "sm90/prefill_linear_shape.cuh"
#include "sm90/tma.cuh"

namespace encore::gpu {

inline constexpr int kPrefillMostVariants = 6;

using PrefillKernel = void (*)(CUtensorMap, CUtensorMap, PrefillParams);

struct PrefillTuning {
  int tile_n = 0;
  int split = 1;          // blocks that share k
  int blocks_per_sm = 1;  // 2: half the memory, and starts under the product before
  int row_blocks = 1;     // tiles of a cluster along x's rows, which share copies of w
  int column_blocks = 1;  // and along w's rows, which share copies of x

  int cluster() const { return split * row_blocks * column_blocks; }
};

// What the host knows of a compiled kernel. `kernel` null: there is none.
struct PrefillForm {
  PrefillKernel kernel = nullptr;
  int threads = 0;
  int smem_bytes = 0;
  int out_tile_n = 0;  // columns of y a tile
};
PrefillForm find_prefill_form(PrefillEpilogue epilogue, const PrefillTuning& tuning);
// One a source file.
PrefillForm find_prefill_store(const PrefillTuning& tuning);
PrefillForm find_prefill_silu_mul(const PrefillTuning& tuning);
PrefillForm find_prefill_add(const PrefillTuning& tuning);

// Columns of y.
int prefill_out_n(const PrefillLinearProblem& problem);
// Super tiles of a tuning: along rows and columns.
int prefill_super_rows(const PrefillLinearProblem& problem, const PrefillTuning& tuning);
int prefill_super_columns(const PrefillLinearProblem& problem, const PrefillTuning& tuning);

// Whether a kernel exists and the problem can be cut so.
bool prefill_tuning_valid(const PrefillLinearProblem& problem, const PrefillTuning& tuning);

// Every tuning that there is; and those worth trying, the likely best first.
std::vector<PrefillTuning> all_prefill_tunings(const PrefillLinearProblem& problem);
std::vector<PrefillTuning> prefill_tunings(const PrefillLinearProblem& problem, int num_sms,
                                           int most = kPrefillMostVariants);

// As prefill_linear_variant_name().
std::string prefill_tuning_name(const PrefillTuning& tuning);

// Multiprocessors of the current device; 0 if there is none.
int prefill_num_sms();

// As prefill_linear_plan(), with a tuning of one's own.
LaunchError prefill_linear_plan_tuned(const PrefillLinearProblem& problem,
                                      const PrefillTuning& tuning, PrefillLinearPlan* plan);

}  // namespace encore::gpu
