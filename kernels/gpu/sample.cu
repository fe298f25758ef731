#include <algorithm>

#include "kernels/gpu/sample.h"
#include "launch.cuh"
#include "sample_choose.cuh"
#include "sample_scan.cuh"

namespace encore::gpu {
namespace {

SampleWorkspace workspace_of(const SampleArgs& args) {
  const auto rows = static_cast<int64_t>(args.rows.maximum);
  SampleWorkspace workspace{};
  workspace.chunks = chunks_of(args.vocab_size);
  workspace.pieces = pieces_of(args.rows.maximum, args.vocab_size);
  workspace.tallies = static_cast<RowTally*>(args.workspace);
  workspace.above = reinterpret_cast<uint64_t*>(workspace.tallies + rows);
  const int64_t values = rows * workspace.chunks;
  workspace.raw_max =
      reinterpret_cast<float*>(workspace.above + rows * workspace.pieces * (kBins + 1));
  workspace.raw_sum = workspace.raw_max + values;
  workspace.edited_max = workspace.raw_sum + values;
  workspace.draw_sum = workspace.edited_max + values;
  workspace.edited = workspace.draw_sum + values;
  return workspace;
}

}  // namespace

size_t sample_workspace_bytes(int32_t max_rows, int32_t vocab_size) {
  size_t pieces = 0;  // of all rows, if there are as many as max_rows or fewer
  for (int32_t rows = 1; rows <= max_rows; ++rows) {
    pieces = std::max(pieces, static_cast<size_t>(rows) * pieces_of(rows, vocab_size));
  }
  const auto rows = static_cast<size_t>(max_rows);
  const size_t values = 4 * static_cast<size_t>(chunks_of(vocab_size)) + vocab_size;
  return rows * (sizeof(RowTally) + values * sizeof(float)) +
         pieces * (kBins + 1) * sizeof(uint64_t);
}

LaunchError sample(const SampleArgs& args, const Launch& launch) {
  constexpr int32_t kMaxRows = 65535;
  if (args.vocab_size <= 0 || chunks_of(args.vocab_size) > kMaxChunks ||
      args.rows.maximum > kMaxRows || args.max_logprobs > kListCapacity) {
    return gpuErrorInvalidValue;
  }
  if (args.rows.maximum <= 0) return gpuSuccess;
  const SampleWorkspace workspace = workspace_of(args);
  const dim3 grid((args.vocab_size + kPiece - 1) / kPiece, args.rows.maximum);
  return with_lanes(launch, [&]<int W>() {
    const LaunchError error =
        launch_kernel(scan_kernel<W>, grid, kScanThreads<W>, 0, launch, args, workspace);
    if (error != gpuSuccess) return error;
    return launch_kernel(choose_kernel<W>, dim3(args.rows.maximum, workspace.pieces),
                         kChooseThreads, 0, launch, args, workspace);
  });
}

}  // namespace encore::gpu
