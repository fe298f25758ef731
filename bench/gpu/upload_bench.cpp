// Weights from a file in the page cache to the device, in GB/s of file.
//
//   upload_bench [FOLDER]     makes a file of 4 GB there (default: the folder for temporary files)
//
// Times include starting and ending the upload; "start ms" is what of that went into page-locked
// memory, streams and threads. Limits measured in the same run: copying from page-locked memory,
// and reading the file into memory by eight threads.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "weight_upload.h"

namespace encore::gpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kFileBytes = int64_t{4} << 30;
constexpr int64_t kColumns = 4096;
constexpr int64_t kMiB = int64_t{1} << 20;

void check(gpuError_t error, const char* what) {
  if (error == gpuSuccess) return;
  std::printf("%s: %s\n", what, gpuGetErrorString(error));
  std::exit(1);
}
void check(const Status& status) {
  if (status.ok()) return;
  std::printf("%s\n", status.to_string().c_str());
  std::exit(1);
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// One file of random bytes, seen as matrices of a dtype that follow one another.
class FileWeights final : public WeightSource {
 public:
  FileWeights(int descriptor, DType dtype) : descriptor_(descriptor) {
    const int64_t row = row_bytes(dtype, kColumns);
    const int64_t rows = 64 * kMiB / row;
    for (int64_t end = rows * row; end <= kFileBytes; end += rows * row) {
      weights_.push_back({"matrix", dtype, {rows, kColumns}, rows * row});
    }
  }

  std::span<const WeightInfo> weights() const override { return weights_; }
  Status read(size_t index, int64_t offset, std::span<std::byte> destination) const override {
    offset += static_cast<int64_t>(index) * weights_[0].bytes;
    while (!destination.empty()) {
      const ssize_t got = ::pread(descriptor_, destination.data(), destination.size(), offset);
      if (got <= 0) return data_loss("the file ends early");
      destination = destination.subspan(static_cast<size_t>(got));
      offset += got;
    }
    return {};
  }
  const std::byte* map(size_t /*index*/) const override { return nullptr; }
  void release(size_t /*index*/) const override {}

  int64_t bytes() const { return static_cast<int64_t>(weights_.size()) * weights_[0].bytes; }

 private:
  int descriptor_;
  std::vector<WeightInfo> weights_;
};

class Block final : public lowering::DeviceMemoryBlock {
 public:
  Block(int64_t bytes, bool host) : bytes_(bytes), host_(host) {
    const auto size = static_cast<size_t>(bytes);
    check(host ? gpuHostAlloc(&data_, size, 0) : gpuMalloc(&data_, size), "allocation");
  }
  ~Block() override { static_cast<void>(host_ ? gpuFreeHost(data_) : gpuFree(data_)); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  std::byte* data() const override { return static_cast<std::byte*>(data_); }
  int64_t bytes() const override { return bytes_; }

 private:
  void* data_ = nullptr;
  int64_t bytes_;
  bool host_;
};

AllocateMemory allocator(bool host) {
  return [host](int64_t bytes, const std::string& /*name*/) {
    return Result<std::unique_ptr<lowering::DeviceMemoryBlock>>(
        std::make_unique<Block>(bytes, host));
  };
}

int make_file(const std::filesystem::path& folder) {
  std::string path = (folder / "encore-upload-XXXXXX").string();
  const int descriptor = ::mkstemp(path.data());
  if (descriptor < 0) {
    std::printf("cannot make a file in %s\n", folder.c_str());
    std::exit(1);
  }
  ::unlink(path.c_str());  // goes with the process
  std::vector<uint64_t> random(static_cast<size_t>(64 * kMiB) / sizeof(uint64_t));
  std::mt19937_64 engine(1);
  for (uint64_t& value : random) value = engine();
  for (int64_t at = 0; at < kFileBytes;) {
    const ssize_t put = ::pwrite(descriptor, random.data(), random.size() * sizeof(uint64_t), at);
    if (put <= 0) {
      std::printf("cannot write %lld bytes in %s\n", static_cast<long long>(kFileBytes),
                  folder.c_str());
      std::exit(1);
    }
    at += put;
  }
  return descriptor;
}

void upload(const FileWeights& source, std::byte* slab, int32_t threads, int64_t piece_bytes) {
  double best = 1e30;
  double start = 0.0;
  for (int round = 0; round < 2; ++round) {
    const Clock::time_point begin = Clock::now();
    auto made = WeightUploader::create(source, slab, {allocator(false), allocator(true)},
                                       {threads, piece_bytes});
    check(made.ok() ? Status() : made.status());
    const double started = seconds_since(begin);
    for (size_t i = 0; i < source.weights().size(); ++i) {
      check((*made)->enqueue({&i, 1}).status());
    }
    check((*made)->finish());
    const double seconds = seconds_since(begin);
    if (seconds < best) {
      best = seconds;
      start = started;
    }
  }
  std::printf("%7s %8d %10lld %9.2f %10.0f\n",
              std::string(dtype_name(source.weights()[0].dtype)).c_str(), threads,
              static_cast<long long>(piece_bytes / kMiB), 1e-9 * double(source.bytes()) / best,
              1e3 * start);
  std::fflush(stdout);
}

double copy_limit(std::byte* device) {
  const Block host(256 * kMiB, true);
  double best = 0.0;
  for (int round = 0; round < 5; ++round) {
    const Clock::time_point begin = Clock::now();
    check(gpuMemcpyAsync(device, host.data(), static_cast<size_t>(host.bytes()),
                         gpuMemcpyHostToDevice, nullptr),
          "copy");
    check(gpuDeviceSynchronize(), "copy");
    best = std::max(best, 1e-9 * double(host.bytes()) / seconds_since(begin));
  }
  return best;
}

double read_limit(const FileWeights& source) {
  constexpr size_t kThreads = 8;
  const Clock::time_point begin = Clock::now();
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&source, t] {
      std::vector<std::byte> buffer(static_cast<size_t>(8 * kMiB));
      const auto step = static_cast<int64_t>(buffer.size());
      for (size_t i = t; i < source.weights().size(); i += kThreads) {
        for (int64_t at = 0; at + step <= source.weights()[i].bytes; at += step) {
          check(source.read(i, at, buffer));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return 1e-9 * double(source.bytes()) / seconds_since(begin);
}

void run(const std::filesystem::path& folder) {
  const int descriptor = make_file(folder);
  const FileWeights bf16(descriptor, DType::kBF16);
  const FileWeights f16(descriptor, DType::kF16);
  const FileWeights q4_k(descriptor, DType::kQ4_K);
  const Block slab(WeightSlab::bytes(q4_k), false);  // the largest as bf16
  std::printf("%u cores\n", std::thread::hardware_concurrency());
  std::printf("%7s %8s %10s %9s %10s\n", "format", "threads", "piece MiB", "GB/s", "start ms");
  for (const int32_t threads : {1, 2, 4, 8, 12, 16}) upload(bf16, slab.data(), threads, 8 * kMiB);
  for (const int64_t piece : {2, 4, 16}) upload(bf16, slab.data(), 8, piece * kMiB);
  upload(f16, slab.data(), 8, 8 * kMiB);
  upload(q4_k, slab.data(), 8, 8 * kMiB);
  std::printf("limits: copy from page-locked memory %.1f GB/s; file reads, 8 threads %.1f GB/s\n",
              copy_limit(slab.data()), read_limit(bf16));
  ::close(descriptor);
}

}  // namespace
}  // namespace encore::gpu

int main(int argc, char** argv) {
  int count = 0;
  if (gpuGetDeviceCount(&count) != gpuSuccess || count == 0) {
    std::printf("no GPU here\n");
    return 0;
  }
  encore::gpu::run(argc > 1 ? argv[1] : std::filesystem::temp_directory_path().string());
  return 0;
}
