// How near attention comes to the machine's read bandwidth and arithmetic peak, and what sampling
// costs. Shapes are SmolLM2-135M's: 30 layers, 9 heads, 3 KV heads, head_dim 64, 49152 tokens.
//
//   ops_bench [--benchmark_filter=REGEX] [Google Benchmark's flags]
//
// An iteration is one layer, and layers take turns, so that keys and values come from where a
// decode step finds them. Counters: GB/s and Gflop/s (two a multiply-add, masked positions not
// counted) with their share of the peaks, which are measured at the start. Threads: ENCORE_THREADS,
// 2 by default.
#include <benchmark/benchmark.h>
#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/sample.h"

namespace encore::kernels {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int32_t kLayers = 30;
constexpr int32_t kHeads = 9;
constexpr int32_t kVocab = 49152;

struct Peaks {
  double bytes_per_second = 0.0;
  double flops_per_second = 0.0;
};
Peaks peaks;  // of the whole team

// Persistent threads that call one function together.
class Team {
 public:
  explicit Team(int32_t count) : barrier_(count) {
    for (int32_t i = 0; i < count; ++i) scratch_.emplace_back(new (std::align_val_t{64}) Scratch);
    for (int32_t i = 1; i < count; ++i) threads_.emplace_back([this, i] { member(i); });
  }
  ~Team() {
    run({});
    for (std::thread& thread : threads_) thread.join();
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int32_t count() const { return barrier_.count(); }

  // Seconds that it took. An empty function ends the team.
  double run(const std::function<void(const Worker&)>& work) {
    work_ = &work;
    barrier_.wait();
    const Clock::time_point start = Clock::now();
    if (work) work(worker(0));
    barrier_.wait();
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

 private:
  struct alignas(64) Scratch {
    std::byte bytes[2 << 20];
  };

  Worker worker(int32_t index) {
    return {index, barrier_.count(), &barrier_, scratch_[index]->bytes, sizeof(Scratch)};
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
  std::vector<std::unique_ptr<Scratch>> scratch_;
  std::vector<std::thread> threads_;
  const std::function<void(const Worker&)>* work_ = nullptr;
};

Team& team() {
  static const char* threads = std::getenv("ENCORE_THREADS");
  static Team instance(threads != nullptr ? std::max(1, std::atoi(threads)) : 2);
  return instance;
}

__attribute__((target("avx512f"))) float fma_loop(int64_t steps) {
  __m512 sums[12];
  for (__m512& sum : sums) sum = _mm512_set1_ps(1.0F);
  const __m512 factor = _mm512_set1_ps(0.999F);
  for (int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 12
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, factor, factor);
  }
  for (int j = 1; j < 12; ++j) sums[0] = _mm512_add_ps(sums[0], sums[j]);
  return _mm512_cvtss_f32(sums[0]);
}

uint64_t read_lines(const std::byte* data, size_t bytes) {
  const size_t stream = bytes / 4;
  uint64_t sum = 0;
  for (size_t i = 0; i < stream; i += 64) {
    for (size_t s = 0; s < 4; ++s) {
      const std::byte* line = data + s * stream + i;
      __builtin_prefetch(line + 4096);
      sum += *reinterpret_cast<const uint64_t*>(line);
    }
  }
  return sum;
}

void measure_peaks() {
  // Pieces as large as one layer's keys and values, from a memory as large as 30 layers'.
  constexpr size_t kPiece = size_t{3} << 20;
  constexpr size_t kPieces = 40;
  constexpr int64_t kSteps = 100000;
  std::vector<std::byte> memory(kPiece * kPieces, std::byte{1});
  double read = 1e9;
  double multiply = 1e9;
  for (size_t i = 0; i < 40 * kPieces; ++i) {
    const std::byte* piece = memory.data() + i % kPieces * kPiece;
    read = std::min(read, team().run([&](const Worker& w) {
      const size_t part = kPiece / static_cast<size_t>(w.count) / 256 * 256;
      benchmark::DoNotOptimize(read_lines(piece + w.index * part, part));
    }));
    if (cpu_features().level < IsaLevel::kAvx512 || i % 4 != 0) continue;
    multiply = std::min(
        multiply, team().run([](const Worker&) { benchmark::DoNotOptimize(fma_loop(kSteps)); }));
  }
  peaks = {static_cast<double>(kPiece) / read,
           static_cast<double>(kSteps) * 12 * 32 * team().count() / multiply};
  std::printf("%d threads: read %.1f GB/s, f32 multiply-add %.0f Gflop/s\n", team().count(),
              peaks.bytes_per_second / 1e9, peaks.flops_per_second / 1e9);
}

// Times each call of `kernel` and reports the fastest: other programs may be running.
template <typename Kernel, typename NextArgs>
void time_calls(benchmark::State& state, Kernel kernel, NextArgs next_args, double bytes,
                double flops) {
  double best = 1e9;
  for (auto _ : state) {
    const auto args = next_args();
    const double seconds = team().run([&](const Worker& worker) { kernel(args, worker); });
    state.SetIterationTime(seconds);
    best = std::min(best, seconds);
  }
  state.counters["best_us"] = best * 1e6;
  state.counters["GB/s"] = bytes / best / 1e9;
  state.counters["of_read_%"] = 100.0 * bytes / best / peaks.bytes_per_second;
  if (flops == 0.0) return;
  state.counters["Gflop/s"] = flops / best / 1e9;
  state.counters["of_fma_%"] = 100.0 * flops / best / peaks.flops_per_second;
}

// Requests of equal length, each with its last q_len tokens in the step; pages in random order.
struct Step {
  Step(WeightType type, int32_t num_requests, int32_t kv_length, int32_t q_length)
      : requests(num_requests), layout{type, 3, 64, 16} {
    const int32_t pages = (kv_length + 15) / 16;
    for (int32_t i = 0; i < requests * pages; ++i) page_ids.push_back(i);
    std::shuffle(page_ids.begin(), page_ids.end(), std::mt19937(1));
    for (int32_t r = 0; r <= requests; ++r) {
      q_start.push_back(r * q_length);
      page_start.push_back(r * pages);
      kv_len.push_back(kv_length);
    }
    const size_t page_bytes = static_cast<size_t>(layout.page_bytes());
    bytes_per_layer = page_bytes * page_ids.size();
    cache.reset(new (std::align_val_t{2 << 20}) std::byte[bytes_per_layer * kLayers]);
    madvise(cache.get(), bytes_per_layer * kLayers, MADV_HUGEPAGE);  // as the CPU backend does
    std::fill_n(cache.get(), bytes_per_layer * kLayers, std::byte{0x3C});
    q.assign(static_cast<size_t>(requests) * q_length * kHeads * 64, 0.01F);
    out.resize(q.size());
    workspace.resize(static_cast<size_t>(
        attention_workspace_bytes(layout, kHeads, kv_length, team().count()) + 64));
  }

  AttentionArgs args(int32_t layer) {
    AttentionArgs a{};
    a.num_requests = &requests;
    a.q_start = q_start.data();
    a.kv_len = kv_len.data();
    a.page_start = page_start.data();
    a.page_ids = page_ids.data();
    a.q = q.data();
    a.q_stride = kHeads * 64;
    a.out = out.data();
    a.out_stride = kHeads * 64;
    a.kv = {cache.get() + layer * bytes_per_layer, layout.page_bytes(), layout};
    a.num_heads = kHeads;
    a.scale = 0.125F;
    a.workspace = reinterpret_cast<float*>(workspace.data());
    a.workspace_bytes = static_cast<int64_t>(workspace.size());
    return a;
  }

  struct Free {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{2 << 20}); }
  };
  int32_t requests;
  KvLayout layout;
  size_t bytes_per_layer = 0;
  std::vector<int32_t> q_start;
  std::vector<int32_t> kv_len;
  std::vector<int32_t> page_start;
  std::vector<int32_t> page_ids;
  std::unique_ptr<std::byte[], Free> cache;
  std::vector<float> q;
  std::vector<float> out;
  std::vector<std::byte> workspace;
};

// Arguments: cache type, requests, positions a request, tokens a request in the step.
void bench_attention(benchmark::State& state, IsaLevel level) {
  if (level > cpu_features().level) return state.SkipWithError("not on this processor");
  const auto kv_length = static_cast<int32_t>(state.range(2));
  const auto q_length = static_cast<int32_t>(state.range(3));
  Step step(static_cast<WeightType>(state.range(0)), static_cast<int32_t>(state.range(1)),
            kv_length, q_length);
  const double seen = q_length * (kv_length - (q_length - 1) / 2.0) * step.requests;
  int32_t layer = 0;
  const auto next = [&] { return step.args(layer++ % kLayers); };
  time_calls(state, attention_kernel(level), next, static_cast<double>(step.bytes_per_layer),
             seen * kHeads * 64 * 4);
}

void attention_cases(benchmark::internal::Benchmark* b) {
  constexpr auto kF32 = static_cast<int64_t>(WeightType::kF32);
  constexpr auto kF16 = static_cast<int64_t>(WeightType::kF16);
  constexpr auto kBF16 = static_cast<int64_t>(WeightType::kBF16);
  b->ArgNames({"type", "requests", "context", "tokens"});
  for (const int64_t type : {kBF16, kF16, kF32}) {
    b->Args({type, 1, 512, 1})->Args({type, 1, 4096, 1})->Args({type, 1, 512, 512});
  }
  b->Args({kBF16, 64, 512, 1})->Args({kBF16, 1, 4096, 512});
  b->UseManualTime()->Unit(benchmark::kMicrosecond);
}
BENCHMARK_CAPTURE(bench_attention, avx512, IsaLevel::kAvx512)->Apply(attention_cases);
BENCHMARK_CAPTURE(bench_attention, avx2, IsaLevel::kAvx2)->Apply(attention_cases);

// Arguments: rows, temperature in tenths, top_k, top_p in hundredths, log-probabilities.
void bench_sample(benchmark::State& state) {
  const auto rows = static_cast<int32_t>(state.range(0));
  std::vector<float> logits(static_cast<size_t>(rows) * kVocab);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 3.0F);
  for (float& x : logits) x = normal(random);
  std::vector<RowSampling> params(
      rows, {static_cast<float>(state.range(1)) / 10, static_cast<float>(state.range(3)) / 100,
             0.0F, 1.0F, 0.0F, 0.0F, static_cast<int32_t>(state.range(2)),
             static_cast<int32_t>(state.range(4)), 1, 0});
  std::vector<int32_t> tokens(rows);
  std::vector<int32_t> status(rows);
  std::vector<float> logprobs(rows);
  std::vector<int32_t> top_tokens(static_cast<size_t>(rows) * 20);
  std::vector<float> top_logprobs(static_cast<size_t>(rows) * 20);
  const int32_t valid = kVocab;
  SampleArgs args{};
  args.num_rows = &rows;
  args.logits = logits.data();
  args.logits_stride = kVocab;
  args.num_valid_tokens = &valid;
  args.params = params.data();
  args.tokens = tokens.data();
  args.row_status = status.data();
  args.token_logprobs = logprobs.data();
  args.top_tokens = top_tokens.data();
  args.top_logprobs = top_logprobs.data();
  args.max_logprobs = 20;
  const auto next = [&] {
    for (RowSampling& p : params) ++p.position;
    return args;
  };
  time_calls(state, sample_kernel(cpu_features().level), next,
             static_cast<double>(logits.size()) * sizeof(float), 0.0);
}

void sample_cases(benchmark::internal::Benchmark* b) {
  b->ArgNames({"rows", "t10", "top_k", "p100", "logprobs"});
  b->Args({1, 0, 0, 100, -1})->Args({1, 0, 0, 100, 5});
  b->Args({1, 8, 0, 100, -1})->Args({1, 8, 0, 95, -1})->Args({1, 8, 40, 95, -1});
  b->Args({1, 100, 0, 95, -1})->Args({64, 8, 0, 95, -1});
  b->UseManualTime()->Unit(benchmark::kMicrosecond);
}
BENCHMARK(bench_sample)->Apply(sample_cases);

}  // namespace
}  // namespace encore::kernels

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  encore::kernels::measure_peaks();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
