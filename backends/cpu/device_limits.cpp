#include "device_limits.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <span>
#include <vector>

#include "host_memory.h"
#include "kernels/cpu/linear.h"

namespace encore::cpu {
namespace {

constexpr int32_t kRuns = 5;
constexpr int64_t kLine = 64;
constexpr int64_t kStreams = 4;
// 256 MiB, well past any cache of a share of a machine. The number of lines of a stream is a prime:
// streams a power of two apart would meet in the same cache sets.
constexpr int64_t kReadBytes = kStreams * kLine * 1048583;

struct ReadArgs {
  const std::byte* data;
  int64_t bytes;
  uint64_t* sums;  // one a worker, so that the reading is not optimised away
};

// Four streams a thread, each prefetched ahead: what the memory system likes best.
void read_memory(const ReadArgs& args, const kernels::Worker& worker) {
  const kernels::Share share =
      kernels::share_of(args.bytes / (kStreams * kLine), worker.index, worker.count);
  const int64_t stream_bytes = (share.end - share.begin) * kLine;
  const std::byte* base = args.data + share.begin * kStreams * kLine;
  uint64_t sum = 0;
  for (int64_t offset = 0; offset < stream_bytes; offset += kLine) {
    for (int64_t stream = 0; stream < kStreams; ++stream) {
      const std::byte* line = base + stream * stream_bytes + offset;
      __builtin_prefetch(line + 1024);
      std::array<uint64_t, 8> words;
      std::memcpy(words.data(), line, kLine);
      for (const uint64_t word : words) sum += word;
    }
  }
  args.sums[worker.index * 8] = sum;
}

template <typename Work>
double best_seconds(const Work& work) {
  double best = 1e30;
  for (int32_t run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best = std::min(best, elapsed.count());
  }
  return best;
}

double measure_read(ThreadTeam& team) {
  auto block = MappedBlock::create(kReadBytes, "bandwidth measurement");
  if (!block.ok()) return 0.0;
  std::memset((*block)->data(), 1, kReadBytes);
  std::vector<uint64_t> sums(static_cast<size_t>(team.size()) * 8);
  const ReadArgs args{(*block)->data(), kReadBytes, sums.data()};
  return static_cast<double>(kReadBytes) /
         best_seconds([&]() { team.run<ReadArgs>(read_memory, args); });
}

double measure_matmul(ThreadTeam& team, kernels::IsaLevel level) {
  constexpr int32_t kRows = 256;
  constexpr int64_t kInputs = 512;
  constexpr int64_t kOutputs = 512;
  constexpr auto kType = kernels::WeightType::kQ8_0;
  const std::array types = {kType};
  std::vector<float> x(kRows * kInputs, 0.5F);
  std::vector<float> y(kRows * kOutputs);
  auto packed = MappedBlock::create(
      static_cast<int64_t>(kernels::packed_bytes(kType, kOutputs, kInputs)), "matmul measurement");
  auto workspace = MappedBlock::create(
      static_cast<int64_t>(kernels::linear_workspace_bytes(types, kRows, kInputs)),
      "matmul measurement");
  if (!packed.ok() || !workspace.ok()) return 0.0;
  std::memset((*packed)->data(), 1, static_cast<size_t>((*packed)->bytes()));
  team.reserve_scratch(kernels::linear_scratch_bytes(types, kInputs));
  const int32_t rows = kRows;
  kernels::LinearArgs args;
  args.x = x.data();
  args.x_stride = kInputs;
  args.num_rows = &rows;
  args.max_rows = kRows;
  args.parts[0].weight = {kType, (*packed)->data(), kOutputs, kInputs};
  args.y = y.data();
  args.y_stride = kOutputs;
  args.workspace = (*workspace)->data();
  args.level = level;
  constexpr double kOperations = 2.0 * kRows * kInputs * kOutputs;
  return kOperations / best_seconds([&]() { team.run(kernels::linear, args); });
}

}  // namespace

DeviceLimits measure_limits(ThreadTeam& team, kernels::IsaLevel level) {
  return {measure_read(team), measure_matmul(team, level)};
}

}  // namespace encore::cpu
