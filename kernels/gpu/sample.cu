#include "kernels/gpu/sample.h"
#include "launch.cuh"
#include "sample_choose.cuh"
#include "sample_scan.cuh"

namespace encore::gpu {
namespace {

SampleWorkspace workspace_of(const SampleArgs& args) {
  SampleWorkspace workspace{};
  workspace.chunks = chunks_of(args.vocab_size);
  const int64_t values = static_cast<int64_t>(args.rows.maximum) * workspace.chunks;
  workspace.raw_max = static_cast<float*>(args.workspace);
  workspace.raw_sum = workspace.raw_max + values;
  workspace.edited_max = workspace.raw_sum + values;
  workspace.draw_sum = workspace.edited_max + values;
  workspace.edited = workspace.draw_sum + values;
  return workspace;
}

}  // namespace

size_t sample_workspace_bytes(int32_t max_rows, int32_t vocab_size) {
  return static_cast<size_t>(max_rows) *
         (4 * static_cast<size_t>(chunks_of(vocab_size)) + static_cast<size_t>(vocab_size)) *
         sizeof(float);
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
  const LaunchError error =
      launch_kernel(scan_kernel, grid, kScanThreads, 0, launch, args, workspace);
  if (error != gpuSuccess) return error;
  return launch_kernel(choose_kernel, args.rows.maximum, kChooseThreads, 0, launch, args,
                       workspace);
}

}  // namespace encore::gpu
