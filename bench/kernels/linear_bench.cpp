// How near the matrix products come to what the machine can do.
//
//   linear_bench [--threads N] [--level NAME] [--seconds S] [--filter TEXT]
//
// Prints, for each weight format, shape and number of rows: time, GB/s of weights and GOP/s (two
// operations a multiply-add), beside the read bandwidth and the arithmetic peaks measured in the
// same run. Weights are cycled through copies that exceed the last cache. Times are the fastest of
// many, because other programs may be running.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu/linear.h"
#include "peak.h"

namespace encore::kernels {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Options {
  int32_t threads = 2;
  IsaLevel level = cpu_features().level;
  double seconds = 0.2;  // a measurement
  std::string filter;
};

// Persistent threads that run one function together, as the CPU backend's do.
class Team {
 public:
  explicit Team(int32_t count) : barrier_(count), scratch_(static_cast<size_t>(count)) {
    for (auto& scratch : scratch_) scratch.resize(1 << 20);
    for (int32_t i = 1; i < count; ++i) threads_.emplace_back([this, i] { member(i); });
  }
  ~Team() {
    run({});
    for (std::thread& thread : threads_) thread.join();
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // An empty function ends the team.
  void run(const std::function<void(const Worker&)>& work) {
    work_ = &work;
    barrier_.wait();
    if (work) work(worker(0));
    barrier_.wait();
  }

 private:
  Worker worker(int32_t index) {
    auto& scratch = scratch_[static_cast<size_t>(index)];
    const auto address = reinterpret_cast<uintptr_t>(scratch.data());
    const size_t skip = (64 - address % 64) % 64;
    return {index, barrier_.count(), &barrier_, scratch.data() + skip, scratch.size() - skip};
  }
  void member(int32_t index) {
    for (;;) {
      barrier_.wait();
      const bool last = !*work_;
      if (!last) (*work_)(worker(index));
      barrier_.wait();
      if (last) return;
    }
  }

  Barrier barrier_;
  std::vector<std::vector<std::byte>> scratch_;
  std::vector<std::thread> threads_;
  const std::function<void(const Worker&)>* work_ = nullptr;
};

// The fastest of the calls that fit in `seconds` (three at least).
double fastest(Team& team, double seconds, const std::function<void(const Worker&)>& work) {
  double best = 1e9;
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 3 || seconds_since(start) < seconds; ++i) {
    const Clock::time_point call = Clock::now();
    team.run(work);
    best = std::min(best, seconds_since(call));
  }
  return best;
}

// Reads a word of every line, in four streams with prefetch. `bytes` is a multiple of 4096.
uint64_t read_bytes(const std::byte* data, int64_t bytes) {
  const int64_t stream = bytes / 4;
  uint64_t sum[4] = {};
  for (int64_t i = 0; i < stream; i += 64) {
    for (int s = 0; s < 4; ++s) {
      const std::byte* line = data + s * stream + i;
      __builtin_prefetch(line + 4096);
      uint64_t word;
      std::memcpy(&word, line, sizeof(word));
      sum[s] ^= word;
    }
  }
  return sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
}

struct Peaks {
  double bytes_per_second;
  double int16_ops;
  double bf16_ops;
};

Peaks measure_peaks(Team& team, const Options& options) {
  constexpr size_t kBytes = size_t{256} << 20;
  std::vector<std::byte> memory(kBytes, std::byte{1});
  std::atomic<uint64_t> sink{0};
  const double read = fastest(team, 1.0, [&](const Worker& w) {
    const Share share = share_of(kBytes / 4096, w.index, w.count);
    sink += read_bytes(memory.data() + share.begin * 4096, (share.end - share.begin) * 4096);
  });
  Peaks peaks{static_cast<double>(kBytes) / read, 0.0, 0.0};
  if (options.level < IsaLevel::kAvx512) return peaks;
  constexpr int64_t kSteps = 200000;
  const double int16 = fastest(team, 0.2, [&](const Worker&) { sink += int16_loop(kSteps); });
  peaks.int16_ops = static_cast<double>(int16_loop_ops(kSteps)) * options.threads / int16;
  if (!cpu_features().avx512_bf16) return peaks;
  const double bf16 = fastest(team, 0.2, [&](const Worker&) { sink += bf16_loop(kSteps); });
  peaks.bf16_ops = static_cast<double>(bf16_loop_ops(kSteps)) * options.threads / bf16;
  return peaks;
}

struct Format {
  WeightType type;
  const char* name;
};
constexpr Format kFormats[] = {
    {WeightType::kQ4_1, "q4_1"}, {WeightType::kQ8_0, "q8_0"}, {WeightType::kQ4_0, "q4_0"},
    {WeightType::kQ4_K, "q4_k"}, {WeightType::kQ5_K, "q5_k"}, {WeightType::kQ6_K, "q6_k"},
    {WeightType::kBF16, "bf16"}, {WeightType::kF16, "f16"},   {WeightType::kF32, "f32"}};

struct Shape {
  const char* name;
  int64_t n;
  int64_t k;
};
constexpr Shape kShapes[] = {{"smol.qkv", 960, 576},      {"smol.o", 576, 576},
                             {"smol.gate_up", 3072, 576}, {"smol.down", 576, 1536},
                             {"smol.head", 49152, 576},   {"1b.o", 2048, 2048},
                             {"1b.gate_up", 16384, 2048}, {"1b.down", 2048, 8192}};

// Copies of one matrix in one buffer, all bytes set: timing does not depend on the values.
class Copies {
 public:
  Copies(WeightType type, const Shape& shape)
      : bytes_(packed_bytes(type, shape.n, shape.k)),
        count_(std::max<size_t>(1, (size_t{160} << 20) / bytes_)),
        memory_(bytes_ * count_ + 64, std::byte{0x11}) {}
  const std::byte* next() {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (64 - address % 64) % 64 + bytes_ * (index_++ % count_);
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  size_t count_;
  std::vector<std::byte> memory_;
  size_t index_ = 0;
};

void bench_product(Team& team, const Options& options, const Peaks& peaks, const Format& format,
                   const Shape& shape, int32_t rows) {
  const std::string name = std::string(format.name) + " " + shape.name;
  if (name.find(options.filter) == std::string::npos) return;
  Copies copies(format.type, shape);
  std::vector<float> x(static_cast<size_t>(rows * shape.k), 0.25F);
  std::vector<float> y(static_cast<size_t>(rows * shape.n));
  std::vector<std::byte> workspace(linear_workspace_bytes({&format.type, 1}, rows, shape.k) + 64);
  LinearArgs args;
  args.x = x.data();
  args.x_stride = shape.k;
  args.num_rows = &rows;
  args.max_rows = rows;
  args.y = y.data();
  args.y_stride = shape.n;
  args.workspace =
      workspace.data() + (64 - reinterpret_cast<uintptr_t>(workspace.data()) % 64) % 64;
  args.level = options.level;
  // Several products a call, so that small ones are not drowned by the start.
  const double ops = 2.0 * rows * static_cast<double>(shape.n * shape.k);
  const int repeat = static_cast<int>(std::clamp(2e8 / ops, 1.0, 16.0));
  std::vector<LinearArgs> calls(static_cast<size_t>(repeat), args);
  double best = 1e9;
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 3 || seconds_since(start) < options.seconds; ++i) {
    for (LinearArgs& call : calls) {
      call.parts[0].weight = {format.type, copies.next(), shape.n, shape.k};
    }
    const Clock::time_point begin = Clock::now();
    team.run([&](const Worker& w) {
      for (const LinearArgs& call : calls) {
        linear(call, w);
        w.wait();
      }
    });
    best = std::min(best, seconds_since(begin));
  }
  best /= repeat;
  const double bandwidth = static_cast<double>(copies.bytes()) / best;
  const double peak = is_quantised(format.type)          ? peaks.int16_ops
                      : format.type == WeightType::kBF16 ? peaks.bf16_ops
                                                         : 0.0;
  std::printf("%-20s %5d %10.1f %8.1f %6.0f%% %9.0f", name.c_str(), rows, best * 1e6,
              bandwidth / 1e9, 100.0 * bandwidth / peaks.bytes_per_second, ops / best / 1e9);
  if (peak > 0.0) std::printf(" %6.0f%%", 100.0 * ops / best / peak);
  std::printf("\n");
  std::fflush(stdout);
}

IsaLevel level_named(const std::string& name) {
  for (const IsaLevel level : {IsaLevel::kGeneric, IsaLevel::kAvx2, IsaLevel::kAvx512}) {
    if (name == isa_level_name(level)) return level;
  }
  return cpu_features().level;
}

int run(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--threads") options.threads = std::max(1, std::atoi(argv[i + 1]));
    if (flag == "--level") options.level = level_named(argv[i + 1]);
    if (flag == "--seconds") options.seconds = std::atof(argv[i + 1]);
    if (flag == "--filter") options.filter = argv[i + 1];
  }
  Team team(options.threads);
  const Peaks peaks = measure_peaks(team, options);
  std::printf("level %s, %d threads, read %.1f GB/s, int16 VNNI %.0f GOP/s, bf16 %.0f GOP/s\n",
              isa_level_name(options.level), options.threads, peaks.bytes_per_second / 1e9,
              peaks.int16_ops / 1e9, peaks.bf16_ops / 1e9);
  std::printf("%-20s %5s %10s %8s %7s %9s %7s\n", "format shape", "rows", "us", "GB/s", "of read",
              "GOP/s", "of peak");
  for (const Format& format : kFormats) {
    for (const Shape& shape : kShapes) {
      for (const int32_t rows : {1, 4, 16, 128, 512}) {
        bench_product(team, options, peaks, format, shape, rows);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace encore::kernels

int main(int argc, char** argv) { return encore::kernels::run(argc, argv); }
