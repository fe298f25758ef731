#include <algorithm>

#include "sm90/decode_linear_geometry.h"
#include "sm90/decode_linear_shape.cuh"

namespace encore::gpu {
namespace {

int ceil_div(int a, int b) { return (a + b - 1) / b; }

}  // namespace

DecodeGeometry decode_geometry(const DecodeLinearProblem& problem, const DecodeTuning& tuning,
                               int num_sms) {
  const bool silu = problem.epilogue == DecodeEpilogue::kSiluMul;
  DecodeGeometry g;
  g.form.epilogue = problem.epilogue;
  g.form.direct = tuning.split == 1 && problem.epilogue != DecodeEpilogue::kAdd;
  g.form.warpgroups = tuning.warpgroups;
  g.form.tiles = tuning.tiles;
  g.form.sets = tuning.sets;
  g.token_tile = problem.m <= 8 ? 8 : problem.m <= 16 ? 16 : problem.m <= 32 ? 32 : 64;
  g.split = tuning.split;
  g.k_steps = problem.k / kStepK / tuning.split;

  const int out_rows = (silu ? tuning.row_tiles() / 2 : tuning.row_tiles()) * kMmaRows;
  g.num_row_groups = ceil_div(silu ? problem.n / 2 : problem.n, std::max(1, out_rows));
  const int most = g.form.direct ? std::max(1, num_sms) * tuning.blocks_per_sm : g.num_row_groups;
  const int rounds = ceil_div(g.num_row_groups, most);
  g.num_clusters = ceil_div(g.num_row_groups, rounds);

  const int stage_bytes = tuning.row_tiles() * kTileBytes + g.token_tile * kStepK * 2;
  const int received_bytes =
      g.form.direct ? 0 : decode_received_bytes(tuning.row_tiles(), g.token_tile);
  auto bytes_of = [&](int stages) {
    return kSmemAlignBytes + decode_layout(stage_bytes, stages, received_bytes, g.token_tile).bytes;
  };
  const int most_stages = std::min(kMaxStages, rounds * g.k_steps);
  while (g.stages < most_stages && bytes_of(g.stages + 1) <= tuning.smem_bytes) ++g.stages;
  g.smem_bytes = bytes_of(g.stages);
  g.threads = tuning.sets * tuning.warpgroups * kWarpgroupThreads + kHelperThreads;
  g.num_sumsq_out = g.num_row_groups * g.split;
  return g;
}

bool decode_geometry_valid(const DecodeLinearProblem& problem, const DecodeGeometry& g) {
  if (g.split != 1 && g.split != 2 && g.split != 4) return false;
  if (problem.k / kStepK % g.split != 0) return false;
  if (g.stages < std::min(2, g.k_steps) || g.smem_bytes > kWholeSmemBytes) return false;
  if (problem.x_out != nullptr && g.num_sumsq_out > kDecodeLinearMaxSumsq) return false;
  return pick_decode_kernel(g.token_tile, g.form) != nullptr;
}

DecodeKernel pick_decode_kernel(int token_tile, const DecodeForm& form) {
  switch (token_tile) {
    case 8:
      return pick_decode_kernel<8>(form);
    case 16:
      return pick_decode_kernel<16>(form);
    case 32:
      return pick_decode_kernel<32>(form);
    default:
      return pick_decode_kernel<64>(form);
  }
}

}  // namespace encore::gpu
