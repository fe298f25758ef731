// Paged attention at the shapes of Llama-3.1-8B: 32 heads, 8 KV heads, head_dim 128, bf16.
//
// Decode in GB/s of keys and values read, prefill in causal TFLOP/s, each as a graph of one plan
// and several layers with caches of their own, so that nothing is found in the level 2 cache.
// `overlap` is the same with programmatic dependent launch. Beside them what a prototype and
// cuDNN 9.19 reached on an H200 in one run (copy 4.25 TB/s, plain read 4.6 TB/s, bf16 matrix
// product 790 TFLOP/s).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "graph_timer.h"
#include "kernels/gpu/attention.h"
#include "launch.cuh"
#include "vendor.h"

namespace encore::gpu {
namespace {

constexpr int kHeads = 32;
constexpr int kKvHeads = 8;
constexpr int kHeadDim = 128;
constexpr size_t kCacheBytes = size_t{600} << 20;  // of all layers together, at least
constexpr int kMaxLayers = 64;
constexpr int kRounds = 11;

// Device memory that is given back.
template <typename T>
class Buffer {
 public:
  explicit Buffer(size_t count) : count_(count) {
    check(gpuMalloc(reinterpret_cast<void**>(&data_), std::max<size_t>(count, 1) * sizeof(T)),
          "allocation");
    check(gpuMemsetAsync(data_, 0, count * sizeof(T), nullptr), "memset");
  }
  explicit Buffer(const std::vector<T>& values) : Buffer(values.size()) {
    check(gpuMemcpyAsync(data_, values.data(), count_ * sizeof(T), gpuMemcpyHostToDevice, nullptr),
          "copy");
    check(gpuDeviceSynchronize(), "copy");
  }
  ~Buffer() { static_cast<void>(gpuFree(data_)); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  T* get() const { return data_; }
  size_t size() const { return count_; }

 private:
  size_t count_;
  T* data_ = nullptr;
};

// Uniform in [-1, 1).
__global__ void fill(bf16* p, size_t count) {
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += stride) {
    const uint32_t hash = static_cast<uint32_t>((i * 0x9e3779b97f4a7c15ULL) >> 32) * 0x85ebca6bU;
    p[i] = __float2bfloat16(static_cast<float>(hash) / 2147483648.0F - 1.0F);
  }
}

struct Lengths {
  int q_len;
  int kv_len;
};

struct Row {
  std::string name;
  std::vector<Lengths> requests;
  const char* beside;  // prototype and cuDNN
};

double kv_bytes(const Row& row) {
  double keys = 0.0;
  for (const Lengths& lengths : row.requests) keys += lengths.kv_len;
  return keys * kKvHeads * kHeadDim * 2 * 2;
}
double causal_flops(const Row& row) {
  double pairs = 0.0;
  for (const Lengths& lengths : row.requests) {
    pairs += static_cast<double>(lengths.q_len) * (lengths.kv_len - lengths.q_len) +
             0.5 * lengths.q_len * (lengths.q_len + 1.0);
  }
  return 4.0 * kHeads * kHeadDim * pairs;
}

// One step's inputs and as many layers of cache as kCacheBytes asks for.
class Step {
 public:
  Step(const Row& row, int page_size, AttentionPath path, int num_processors, gpuStream_t stream)
      : path_(path),
        stream_(stream),
        shape_(make_shape(page_size)),
        bounds_(make_bounds(row, num_processors)),
        tables_(row, page_size),
        q_(static_cast<size_t>(bounds_.max_tokens) * kHeads * kHeadDim),
        y_(q_.size()),
        layer_elements_(tables_.num_pages * static_cast<size_t>(shape_.kv.page_bytes()) / 2),
        num_layers_(static_cast<int>(
            std::clamp<size_t>(kCacheBytes / (2 * layer_elements_), 2, kMaxLayers))),
        cache_(layer_elements_ * static_cast<size_t>(num_layers_)),
        workspace_(attention_workspace_bytes(shape_, bounds_, path)) {
    fill<<<1024, 256>>>(q_.get(), q_.size());
    fill<<<1024, 256>>>(cache_.get(), cache_.size());
    check(gpuDeviceSynchronize(), "fill");
  }

  double plan_us() {
    const auto plans = [&] {
      for (int i = 0; i < 10; ++i) plan({stream_, false});
    };
    return 1000.0 * time_graph(stream_, plans, kRounds) / 10;
  }
  double layer_us(bool overlap) {
    const Launch launch{stream_, overlap};
    plan({stream_, false});
    const auto layers = [&] {
      for (int i = 0; i < num_layers_; ++i) run(i, launch);
    };
    return 1000.0 * time_graph(stream_, layers, kRounds) / num_layers_;
  }

 private:
  struct Tables {
    Tables(const Row& row, int page_size)
        : q_start(starts(row, [](const Lengths& l) { return l.q_len; })),
          page_start(starts(
              row, [=](const Lengths& l) { return (l.kv_len + page_size - 1) / page_size; })),
          kv_len(lens(row)),
          num_requests(std::vector<int32_t>{static_cast<int32_t>(row.requests.size())}),
          num_pages(pages(row, page_size)),
          page_ids(scattered(num_pages)) {}
    static std::vector<int32_t> starts(const Row& row,
                                       const std::function<int(const Lengths&)>& count) {
      std::vector<int32_t> result{0};
      for (const Lengths& lengths : row.requests) result.push_back(result.back() + count(lengths));
      return result;
    }
    static std::vector<int32_t> lens(const Row& row) {
      std::vector<int32_t> result;
      for (const Lengths& lengths : row.requests) result.push_back(lengths.kv_len);
      return result;
    }
    static size_t pages(const Row& row, int page_size) {
      size_t total = 0;
      for (const Lengths& lengths : row.requests)
        total += static_cast<size_t>((lengths.kv_len + page_size - 1) / page_size);
      return total;
    }
    // Every page once, neighbours far apart.
    static std::vector<int32_t> scattered(size_t count) {
      size_t step = count / 3 + 1;
      while (std::gcd(step, count) != 1) ++step;
      std::vector<int32_t> result;
      for (size_t i = 0; i < count; ++i) result.push_back(static_cast<int32_t>(i * step % count));
      return result;
    }
    Buffer<int32_t> q_start, page_start, kv_len, num_requests;
    size_t num_pages;
    Buffer<int32_t> page_ids;
  };

  static AttentionShape make_shape(int page_size) {
    AttentionShape shape;
    shape.num_heads = kHeads;
    shape.kv = {Element::kBF16, kKvHeads, kHeadDim, page_size};
    shape.element = Element::kBF16;
    return shape;
  }
  static AttentionBounds make_bounds(const Row& row, int num_processors) {
    AttentionBounds bounds;
    bounds.decode_only = true;
    for (const Lengths& lengths : row.requests) {
      bounds.max_tokens += lengths.q_len;
      bounds.decode_only = bounds.decode_only && lengths.q_len == 1;
    }
    bounds.max_requests = static_cast<int32_t>(row.requests.size());
    bounds.num_processors = num_processors;
    return bounds;
  }

  AttentionInputs inputs() const {
    return {tables_.num_requests.get(), tables_.q_start.get(), tables_.kv_len.get(),
            tables_.page_start.get(), tables_.page_ids.get()};
  }
  void plan(const Launch& launch) {
    check(attention_plan(shape_, bounds_, path_, inputs(), workspace_.get(), launch), "plan");
  }
  void run(int layer, const Launch& launch) {
    AttentionArgs args;
    args.inputs = inputs();
    args.kv = {
        reinterpret_cast<std::byte*>(cache_.get() + static_cast<size_t>(layer) * layer_elements_),
        static_cast<int32_t>(tables_.num_pages), shape_.kv};
    args.q = q_.get();
    args.y = y_.get();
    args.q_stride = args.y_stride = kHeads * kHeadDim;
    args.scale = 0.08838835F;
    args.workspace = workspace_.get();
    check(attention_run(shape_, bounds_, path_, args, launch), "run");
  }

  AttentionPath path_;
  gpuStream_t stream_;
  AttentionShape shape_;
  AttentionBounds bounds_;
  Tables tables_;
  Buffer<bf16> q_, y_;
  size_t layer_elements_;
  int num_layers_;
  Buffer<bf16> cache_;
  Buffer<std::byte> workspace_;
};

std::vector<Lengths> even(int count, int q_len, int kv_len) {
  return std::vector<Lengths>(static_cast<size_t>(count), {q_len, kv_len});
}
// Lengths spread evenly over [low, high], in a mixed-up order. q_len 0: all of the length.
std::vector<Lengths> spread(int count, int q_len, int low, int high) {
  std::vector<Lengths> result;
  for (int i = 0; i < count; ++i) {
    const int length = low + (high - low) * (i * 37 % count) / std::max(count - 1, 1);
    result.push_back({q_len > 0 ? q_len : length, length});
  }
  return result;
}

std::vector<Row> decode_rows() {
  return {{"1 x 1k", even(1, 1, 1024), "539, 549"},
          {"1 x 4k", even(1, 1, 4096), "1113, 1425"},
          {"8 x 1k", even(8, 1, 1024), "1641, 2178"},
          {"8 x 4k", even(8, 1, 4096), "2989, 3294"},
          {"64 x 1k", even(64, 1, 1024), "3806, 3798"},
          {"64 x 4k", even(64, 1, 4096), "4325, 4268"},
          {"64 x 100..8000", spread(64, 1, 100, 8000), "4035, 3558"},
          {"256 x 50..2000", spread(256, 1, 50, 2000), "4029, -"},
          {"2 x 1k", even(2, 1, 1024), "-"},
          {"4 x 1k", even(4, 1, 1024), "-"},
          {"16 x 1k", even(16, 1, 1024), "-"},
          {"32 x 1k", even(32, 1, 1024), "-"},
          {"1 x 32k", even(1, 1, 32768), "-"}};
}
std::vector<Row> prefill_rows() {
  return {{"1 x 4096", even(1, 4096, 4096), "514/561, 435/487"},
          {"4 x 1024", even(4, 1024, 1024), "327/342, 330/361"},
          {"16 x 256", even(16, 256, 256), "-"},
          {"8 x 100..900", spread(8, 0, 100, 900), "218/228, 216/230"},
          {"2 x 512 on 4k, 7.7k", {{512, 4096 + 512}, {512, 7700 + 512}}, "546/-, 464/502"},
          {"1 x 128", even(1, 128, 128), "-"}};
}

void print_decode(int num_processors, gpuStream_t stream) {
  std::printf("decode, page size 16%27s| GB/s of KV\n", "");
  std::printf("%-20s %8s %8s %8s | %8s %8s   prototype, cuDNN\n", "requests", "plan us", "us",
              "overlap", "here", "overlap");
  for (const Row& row : decode_rows()) {
    Step step(row, 16, AttentionPath::kHopper, num_processors, stream);
    const double us = step.layer_us(false);
    const double overlap_us = step.layer_us(true);
    std::printf("%-20s %8.2f %8.2f %8.2f | %8.0f %8.0f   %s\n", row.name.c_str(), step.plan_us(),
                us, overlap_us, kv_bytes(row) / us / 1e3, kv_bytes(row) / overlap_us / 1e3,
                row.beside);
  }
}

void print_prefill(int num_processors, gpuStream_t stream) {
  std::printf("\nprefill, causal TFLOP/s%16s| Hopper p16  p64 | mma.sync p16  p64\n", "");
  std::printf("%-20s %8s %8s |%17s |%18s   prototype p16/p64, cuDNN\n", "requests", "plan us", "us",
              "", "");
  for (const Row& row : prefill_rows()) {
    double us[4];
    double plan_us = 0.0;
    for (int i = 0; i < 4; ++i) {
      Step step(row, i % 2 == 0 ? 16 : 64, i < 2 ? AttentionPath::kHopper : AttentionPath::kTensor,
                num_processors, stream);
      us[i] = step.layer_us(false);
      if (i == 0) plan_us = step.plan_us();
    }
    const double flops = causal_flops(row) / 1e6;
    std::printf("%-20s %8.2f %8.1f | %9.0f %6.0f | %10.0f %6.0f   %s\n", row.name.c_str(), plan_us,
                us[0], flops / us[0], flops / us[1], flops / us[2], flops / us[3], row.beside);
  }
}

int run_all() {
  int processors = 0;
  check(gpuDeviceGetAttribute(&processors, gpuAttributeMultiprocessors, 0), "device");
  gpuStream_t stream = nullptr;
  check(gpuStreamCreateWithFlags(&stream, gpuStreamNonBlocking), "stream");
  print_decode(processors, stream);
  print_prefill(processors, stream);
  return 0;
}

}  // namespace
}  // namespace encore::gpu

int main() { return encore::gpu::run_all(); }
