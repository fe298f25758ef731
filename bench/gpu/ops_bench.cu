// The small kernels at the sizes of Llama-3.1-8B: decode of 1 and 64 rows, prefill of 4096.
//
// Microseconds a call in a graph of several, plain and with programmatic dependent launch, and the
// GB/s that the better of both moves. Activations are found in the level 2 cache, as in a step, so
// that figures may pass the limit of memory; weights to dequantise are not.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "graph_timer.h"
#include "kernels/gpu/dequantize.h"
#include "kernels/gpu/norm.h"
#include "kernels/gpu/rope.h"
#include "kernels/gpu/rows.h"
#include "kernels/gpu/sample.h"
#include "launch.cuh"
#include "vendor.h"

namespace encore::gpu {
namespace {

constexpr int32_t kHidden = 4096;
constexpr int32_t kIntermediate = 14336;
constexpr int32_t kHeads = 32;
constexpr int32_t kKvHeads = 8;
constexpr int32_t kHeadDim = 128;
constexpr int32_t kQkv = (kHeads + 2 * kKvHeads) * kHeadDim;
constexpr int32_t kVocab = 128256;
constexpr int32_t kMaxRows = 4096;
constexpr int32_t kMaxSampled = 256;
constexpr int32_t kRepeats = 10;
constexpr int kRounds = 11;

// Device memory, zeroed; kept until the end.
template <typename T>
T* device(size_t count) {
  void* data = nullptr;
  check(gpuMalloc(&data, count * sizeof(T)), "allocation");
  check(gpuMemsetAsync(data, 0, count * sizeof(T), nullptr), "memset");
  check(gpuDeviceSynchronize(), "memset");
  return static_cast<T*>(data);
}
template <typename T>
void put(T* to, const std::vector<T>& values) {
  check(
      gpuMemcpyAsync(to, values.data(), values.size() * sizeof(T), gpuMemcpyHostToDevice, nullptr),
      "copy");
  check(gpuDeviceSynchronize(), "copy");
}
template <typename T>
T* device(const std::vector<T>& values) {
  T* data = device<T>(values.size());
  put(data, values);
  return data;
}

class Bench {
 public:
  Bench() { check(gpuStreamCreateWithFlags(&stream_, gpuStreamNonBlocking), "stream"); }

  // Prints a line for what `enqueue` launches. `bytes`: read and written, once each.
  void line(const std::string& name, double bytes,
            const std::function<LaunchError(const Launch&)>& enqueue) {
    const double plain = median_us(false, enqueue);
    const double overlapped = median_us(true, enqueue);
    const double rate = bytes / std::min(plain, overlapped) / 1000.0;
    std::printf("%-34s %9.2f %9.2f %9.0f %6.1f%%\n", name.c_str(), plain, overlapped, rate,
                100.0 * rate / limit_);
  }

  // Copies 1 GiB: the limit of what follows.
  void measure_limit() {
    constexpr size_t kBytes = size_t{1} << 30;
    auto* from = device<std::byte>(kBytes);
    auto* to = device<std::byte>(kBytes);
    const double us = median_us(false, [&](const Launch& launch) {
      return gpuMemcpyAsync(to, from, kBytes, gpuMemcpyDeviceToDevice,
                            static_cast<gpuStream_t>(launch.stream));
    });
    limit_ = 2.0 * kBytes / us / 1000.0;
    check(gpuFree(from), "free");
    check(gpuFree(to), "free");
    std::printf("%-34s %9s %9s %9s\n", "", "us", "overlap", "GB/s");
    std::printf("%-34s %9.2f %9s %9.0f\n", "copy of 1 GiB (the limit)", us, "", limit_);
  }

 private:
  double median_us(bool overlap, const std::function<LaunchError(const Launch&)>& enqueue) {
    const Launch launch{stream_, overlap};
    check(enqueue(launch), "launch");
    check(gpuStreamSynchronize(stream_), "kernel");
    const auto calls = [&] {
      for (int i = 0; i < kRepeats; ++i) check(enqueue(launch), "launch");
    };
    return 1000.0 * time_graph(stream_, calls, kRounds) / kRepeats;
  }

  gpuStream_t stream_ = nullptr;
  double limit_ = 0.0;
};

std::vector<int32_t> counting(int32_t count) {
  std::vector<int32_t> values(count);
  for (int32_t i = 0; i < count; ++i) values[i] = i;
  return values;
}

void bench_rows(Bench* bench) {
  auto* wide = device<uint16_t>(size_t{kMaxRows} * 2 * kIntermediate);
  auto* narrow = device<uint16_t>(size_t{kMaxRows} * kIntermediate);
  auto* weight = device<uint16_t>(kIntermediate);
  auto* table = device<uint16_t>(size_t{kVocab} * kHidden);
  auto* index = device(counting(kMaxRows));
  auto* scratch = device<int32_t>(kMaxRows);
  for (const int32_t rows : {1, 64, kMaxRows}) {
    const std::string size = ", " + std::to_string(rows) + (rows == 1 ? " row" : " rows");
    const double n = rows;
    const LiveRows live{device(std::vector<int32_t>{rows}), rows};
    bench->line("rms_norm" + size, n * kHidden * 4, [&](const Launch& launch) {
      return rms_norm({live, wide, kHidden, weight, narrow, kHidden, kHidden, 1e-5F}, launch);
    });
    bench->line("embed" + size, n * kHidden * 4, [&](const Launch& launch) {
      return embed({live, index, nullptr, scratch, table, kVocab, kHidden, narrow}, launch);
    });
    bench->line("gather_rows" + size, n * kHidden * 4, [&](const Launch& launch) {
      return gather_rows({live, index, wide, narrow, kHidden}, launch);
    });
    bench->line("silu_mul" + size, n * kIntermediate * 6, [&](const Launch& launch) {
      return silu_mul({live, wide, narrow, kIntermediate}, launch);
    });
    bench->line("add_bias" + size, n * kQkv * 4, [&](const Launch& launch) {
      return add_bias({live, wide, weight, kQkv}, launch);
    });
  }
  for (void* data :
       {static_cast<void*>(wide), static_cast<void*>(narrow), static_cast<void*>(table)}) {
    check(gpuFree(data), "free");
  }
}

void bench_rope(Bench* bench) {
  constexpr int32_t kPageSize = 16;
  constexpr int32_t kPages = kMaxRows / kPageSize;
  auto* qkv = device<uint16_t>(size_t{kMaxRows} * kQkv);
  auto* weight = device<uint16_t>(kHeadDim);
  auto* positions = device(counting(kMaxRows));
  auto* requests = device<int32_t>(kMaxRows);  // all of request 0
  auto* page_start = device(std::vector<int32_t>{0, kPages});
  auto* page_ids = device(counting(kPages));
  auto* inv_freq = device(std::vector<float>(kHeadDim / 2, 0.7F));
  auto* cos_sin = device<float>(size_t{kMaxRows} * kHeadDim);
  auto* slots = device<int32_t>(kMaxRows);
  KvPages kv{nullptr, kPages, {Element::kBF16, kKvHeads, kHeadDim, kPageSize}};
  kv.data = device<std::byte>(static_cast<size_t>(kPages * kv.layout.page_bytes()));
  for (const int32_t rows : {1, 64, kMaxRows}) {
    const std::string size = ", " + std::to_string(rows) + (rows == 1 ? " row" : " rows");
    const LiveRows live{device(std::vector<int32_t>{rows}), rows};
    bench->line("step_tables" + size, rows * kHeadDim * 4.0, [&](const Launch& launch) {
      return step_tables({live, positions, requests, page_start, page_ids, inv_freq, 1.0F, kHeadDim,
                          kPageSize, kPages, cos_sin, slots},
                         launch);
    });
    for (const bool norms : {false, true}) {
      const void* norm = norms ? weight : nullptr;
      bench->line((norms ? "rope_kv_write, q/k norm" : "rope_kv_write") + size,
                  rows * (kQkv * 4.0 + kHeadDim * 4.0), [&](const Launch& launch) {
                    return rope_kv_write(
                        {live, qkv, kQkv, norm, norm, 1e-6F, RopePairing::kHalfSplit, kHeads,
                         kHeadDim, cos_sin, slots, kv},
                        launch);
                  });
    }
  }
}

void bench_dequantize(Bench* bench) {
  constexpr int64_t kElements = int64_t{kHidden} * kIntermediate * 4;
  struct Format {
    const char* name;
    WeightFormat format;
    double bytes;  // an element
  };
  auto* source = device<std::byte>(kElements * 4);
  auto* destination = device<uint16_t>(kElements);
  for (const Format& f : {Format{"f32", WeightFormat::kF32, 4.0},
                          {"f16", WeightFormat::kF16, 2.0},
                          {"Q8_0", WeightFormat::kQ8_0, 34.0 / 32},
                          {"Q4_0", WeightFormat::kQ4_0, 18.0 / 32},
                          {"Q4_1", WeightFormat::kQ4_1, 20.0 / 32},
                          {"Q4_K", WeightFormat::kQ4_K, 144.0 / 256},
                          {"Q5_K", WeightFormat::kQ5_K, 176.0 / 256},
                          {"Q6_K", WeightFormat::kQ6_K, 210.0 / 256}}) {
    bench->line(std::string("dequantize ") + f.name, kElements * (f.bytes + 2.0),
                [&](const Launch& launch) {
                  return dequantize({f.format, source, kElements, destination}, launch);
                });
  }
  check(gpuFree(source), "free");
  check(gpuFree(destination), "free");
}

// Logits as a model gives them: a wide bulk and a few dozen well above it.
float* make_logits() {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal(0.0F, 2.0F);
  std::vector<float> row(2 * kVocab);
  for (int32_t i = 0; i < kVocab; ++i) row[i] = row[i + kVocab] = normal(engine);
  for (int32_t i = 0; i < 40; ++i) {
    const uint32_t token = engine() % kVocab;
    row[token] = row[token + kVocab] = 14.0F - 0.15F * static_cast<float>(i);
  }
  auto* logits = device<float>(size_t{kMaxSampled} * kVocab);
  for (int32_t i = 0; i < kMaxSampled; ++i) {
    const auto from = row.begin() + i * 500;
    put(logits + size_t{kVocab} * i, std::vector<float>(from, from + kVocab));
  }
  return logits;
}

void bench_sample(Bench* bench) {
  constexpr int32_t kHistory = 1000;
  const RowSampling greedy{0.0F, 1.0F, 0.0F, 1.0F, 0.0F, 0.0F, 0, -1, 7, 3};
  struct Kind {
    const char* name;
    RowSampling params;
    bool all_sizes;
  };
  std::vector<Kind> kinds{{"greedy", greedy, true}};
  const auto add = [&](const char* name, bool all_sizes,
                       const std::function<void(RowSampling*)>& set) {
    kinds.push_back({name, greedy, all_sizes});
    set(&kinds.back().params);
  };
  add("greedy, 5 log-probabilities", false, [](RowSampling* p) { p->num_logprobs = 5; });
  add("greedy, penalties", false, [](RowSampling* p) { p->frequency_penalty = 0.1F; });
  add("temperature", true, [](RowSampling* p) { p->temperature = 0.8F; });
  add("top_p 0.95", true, [](RowSampling* p) { p->temperature = 0.8F, p->top_p = 0.95F; });
  add("top_k 50, top_p 0.9", false,
      [](RowSampling* p) { p->temperature = 1.0F, p->top_k = 50, p->top_p = 0.9F; });
  add("top_p 0.95, nearly flat", false,
      [](RowSampling* p) { p->temperature = 8.0F, p->top_p = 0.95F; });

  std::vector<int32_t> history_start(kMaxSampled + 1);
  std::vector<TokenCount> history;
  for (int32_t row = 0; row < kMaxSampled; ++row) {
    for (int32_t i = 0; i < kHistory; ++i) history.push_back({i * 101, 1, 1});
    history_start[row + 1] = static_cast<int32_t>(history.size());
  }
  SampleArgs args;
  args.logits = make_logits();
  args.logits_stride = kVocab;
  args.vocab_size = kVocab;
  args.num_valid_tokens = device(std::vector<int32_t>{kVocab});
  args.history_start = device(history_start);
  args.history = device(history);
  args.tokens = device<int32_t>(kMaxSampled);
  args.row_status = device<int32_t>(kMaxSampled);
  args.token_logprobs = device<float>(kMaxSampled);
  args.max_logprobs = 20;
  args.top_tokens = device<int32_t>(size_t{kMaxSampled} * 20);
  args.top_logprobs = device<float>(size_t{kMaxSampled} * 20);
  args.workspace = device<std::byte>(sample_workspace_bytes(kMaxSampled, kVocab));
  for (const Kind& kind : kinds) {
    args.params = device(std::vector<RowSampling>(kMaxSampled, kind.params));
    for (const int32_t rows : {1, 64, kMaxSampled}) {
      if (rows == kMaxSampled && !kind.all_sizes) continue;
      args.rows = {device(std::vector<int32_t>{rows}), rows};
      bench->line("sample " + std::string(kind.name) + ", " + std::to_string(rows),
                  4.0 * rows * kVocab, [&](const Launch& launch) { return sample(args, launch); });
    }
  }
  args.params = device(std::vector<RowSampling>(kMaxSampled, greedy));
  args.rows = {device(std::vector<int32_t>{1}), kMaxSampled};
  bench->line("sample greedy, 1 live of 256", 4.0 * kVocab,
              [&](const Launch& launch) { return sample(args, launch); });
}

void run() {
  Bench bench;
  bench.measure_limit();
  bench_rows(&bench);
  bench_rope(&bench);
  bench_dequantize(&bench);
  bench_sample(&bench);
}

}  // namespace
}  // namespace encore::gpu

int main() {
  int count = 0;
  if (gpuGetDeviceCount(&count) != gpuSuccess || count == 0) {
    std::printf("no GPU here\n");
    return 0;
  }
  encore::gpu::run();
}
