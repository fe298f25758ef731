// Measures how fast this machine reads memory: the limit of a decode step.
//
// Each thread walks its own part of a buffer far larger than the caches in several streams at
// once, with prefetch, because one stream leaves the memory controller idle. Prints one JSON line:
// the best of several passes for each number of streams, and the best of all.
//   read_bandwidth [threads] [mebibytes]
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <thread>
#include <vector>

namespace {

constexpr int kPasses = 7;
constexpr size_t kLineWords = 8;       // uint64 words in a cache line
constexpr size_t kPrefetchLines = 24;  // how far ahead of each stream

// XOR of all words of data[0, words), read as `streams` interleaved streams.
uint64_t read_streams(const uint64_t* data, size_t words, size_t streams) {
  // An odd number of lines: streams a power of two apart would meet in the same cache sets.
  const size_t lines = (words / streams / kLineWords - 1) | 1;
  uint64_t lanes[kLineWords] = {};
  for (size_t line = 0; line < lines; ++line) {
    for (size_t stream = 0; stream < streams; ++stream) {
      const uint64_t* at = data + (stream * lines + line) * kLineWords;
      __builtin_prefetch(at + kPrefetchLines * kLineWords);
      for (size_t i = 0; i < kLineWords; ++i) lanes[i] ^= at[i];
    }
  }
  return lanes[0] ^ lanes[1] ^ lanes[2] ^ lanes[3] ^ lanes[4] ^ lanes[5] ^ lanes[6] ^ lanes[7];
}

// Seconds of one pass over `data` by all threads.
double time_pass(std::span<const uint64_t> data, size_t threads, size_t streams) {
  const size_t share = data.size() / threads;
  std::vector<uint64_t> sums(threads);
  std::vector<std::thread> workers;
  const auto start = std::chrono::steady_clock::now();
  for (size_t t = 0; t < threads; ++t) {
    workers.emplace_back(
        [&, t] { sums[t] = read_streams(data.data() + t * share, share, streams); });
  }
  for (std::thread& worker : workers) worker.join();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  volatile uint64_t sink = sums[0];  // the sums must not be optimised away
  (void)sink;
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  const size_t threads = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 2;
  const size_t mebibytes = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 1024;
  if (threads == 0 || threads > 256 || mebibytes == 0 || mebibytes > 65536) {
    std::fprintf(stderr, "usage: read_bandwidth [threads 1-256] [mebibytes 1-65536]\n");
    return 2;
  }
  const size_t mapped_bytes = mebibytes << 20;
  void* memory =
      mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::fprintf(stderr, "read_bandwidth: cannot get %zu MiB\n", mebibytes);
    return 1;
  }
  madvise(memory, mapped_bytes, MADV_HUGEPAGE);  // fewer address translations
  const std::span<uint64_t> data(static_cast<uint64_t*>(memory), mapped_bytes / sizeof(uint64_t));
  std::fill(data.begin(), data.end(), 1);
  const double bytes = static_cast<double>(data.size() * sizeof(uint64_t));
  double best_of_all = 0.0;
  std::printf("{\"threads\": %zu, \"mebibytes\": %zu, \"gb_per_second\": {", threads, mebibytes);
  for (size_t streams : {1, 2, 4, 8}) {
    double best = 0.0;
    for (int pass = 0; pass < kPasses; ++pass) {
      best = std::max(best, bytes / time_pass(data, threads, streams) / 1e9);
    }
    best_of_all = std::max(best_of_all, best);
    std::printf("%s\"%zu\": %.2f", streams == 1 ? "" : ", ", streams, best);
  }
  std::printf("}, \"best_gb_per_second\": %.2f}\n", best_of_all);
  return 0;
}
