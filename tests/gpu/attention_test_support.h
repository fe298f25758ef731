// One step of paged attention with random data, its reference in double, and the comparison.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "device_under_test.h"
#include "gpu_test_support.h"
#include "kernels/gpu/attention.h"

namespace encore::gpu {

// For GoogleTest.
inline void PrintTo(AttentionPath path, std::ostream* to) {
  constexpr const char* kNames[] = {"plain", "tensor", "hopper", "mfma", "wmma", "mma"};
  *to << kNames[static_cast<size_t>(path)];
}

}  // namespace encore::gpu

namespace encore::gpu::testing {

struct RequestLengths {
  int32_t q_len;
  int32_t kv_len;  // q_len included
};

struct AttentionCase {
  AttentionShape shape;
  AttentionPath path = AttentionPath::kPlain;
  std::vector<RequestLengths> requests;
  int32_t max_requests = 0;  // 0: as many as there are
  int32_t max_tokens = 0;    // 0: as many as there are, and three more
  bool decode_only = false;
  int32_t num_processors = kOnCpu ? 24 : 132;
  int32_t lanes = 32;  // kPlain's; the others have their own
  // What the cache holds where no live token is: rows past kv_len, pages of nobody.
  float stale = std::numeric_limits<float>::quiet_NaN();
  uint32_t seed = 1;
};

inline AttentionShape make_shape(int32_t num_heads, int32_t num_kv_heads, int32_t head_dim,
                                 int32_t page_size, Element element = Element::kBF16) {
  AttentionShape shape;
  shape.num_heads = num_heads;
  shape.kv = {element, num_kv_heads, head_dim, page_size};
  shape.element = element;
  return shape;
}

// Bits of `value` in an element type, and back. 4 bytes each, the upper ones unused for 16 bits.
inline uint32_t encode(Element element, float value) {
  if (element == Element::kBF16) return to_bf16(value);
  if (element == Element::kF16) return std::bit_cast<uint16_t>(__float2half_rn(value));
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
inline float decode(Element element, uint32_t bits) {
  if (element == Element::kBF16) return from_bf16(static_cast<uint16_t>(bits));
  if (element == Element::kF16)
    return __half2float(std::bit_cast<__half>(static_cast<uint16_t>(bits)));
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// Values of one element type on the host: as floats already rounded to it.
struct Tensor {
  explicit Tensor(Element type, size_t count, float value) : element(type), values(count, value) {}
  std::vector<std::byte> bytes() const {
    const auto size = static_cast<size_t>(element_bytes(element));
    std::vector<std::byte> result(values.size() * size);
    for (size_t i = 0; i < values.size(); ++i) {
      const uint32_t bits = encode(element, values[i]);
      std::memcpy(result.data() + i * size, &bits, size);
    }
    return result;
  }
  Element element;
  std::vector<float> values;
};

// The step's inputs on host and device. Rows of q that no request has hold NaN.
class AttentionStep {
 public:
  explicit AttentionStep(const AttentionCase& which)
      : case_(which),
        layout_(which.shape.kv),
        num_tokens_(count_tokens()),
        bounds_{which.max_tokens > 0 ? which.max_tokens : num_tokens_ + 3,
                which.max_requests > 0 ? which.max_requests : num_requests(), which.decode_only,
                which.num_processors},
        q_stride_(row_elements() + 16),
        y_stride_(row_elements() + 8),
        q_(which.shape.element, static_cast<size_t>(bounds_.max_tokens * q_stride_),
           std::numeric_limits<float>::quiet_NaN()),
        pages_(layout_.element, 0, 0.0F) {
    make_pages();
    fill_values();
    num_requests_device_.put(std::vector<int32_t>{num_requests()});
    y_.fill(0xCD);
    workspace_.fill(0);
  }

  const AttentionBounds& bounds() const { return bounds_; }
  DeviceBuffer<std::byte>& workspace() { return workspace_; }

  AttentionArgs args() {
    AttentionArgs args;
    args.inputs = {num_requests_device_.get(), q_start_device_.get(), kv_len_device_.get(),
                   page_start_device_.get(), page_ids_device_.get()};
    args.kv = {pages_device_.get(), num_pages_, layout_};
    args.q = q_device_.get();
    args.q_stride = q_stride_;
    args.y = y_.get();
    args.y_stride = y_stride_;
    args.scale = scale();
    args.workspace = workspace_.get();
    return args;
  }
  LaunchError plan(const Launch& launch) {
    return attention_plan(case_.shape, bounds_, case_.path, args().inputs, workspace_.get(),
                          launch);
  }
  LaunchError run(const Launch& launch) {
    return attention_run(case_.shape, bounds_, case_.path, args(), launch);
  }
  void poison_output() { y_.fill(0xCD); }

  // Compares every live row with the reference, and the rest of y with what it held before.
  // Tolerances: a weight and the result are each rounded once to the element, so the error of a
  // head's vector is about 1.5 times 2^-9 / sqrt(3) (bf16), 2^-12 / sqrt(3) (fp16) of its length,
  // more where few dimensions or keys count.
  void check() {
    const double tolerance = case_.shape.element == Element::kBF16  ? 1e-2
                             : case_.shape.element == Element::kF16 ? 2e-3
                             : layout_.element == Element::kF32     ? 1e-5
                                                                    : 2e-5;
    const std::vector<std::byte> found = y_.host();
    const auto size = static_cast<size_t>(element_bytes(case_.shape.element));
    std::vector<bool> written(found.size() / size, false);
    double worst = 0.0;
    size_t next = 0;
    for (int r = 0; r < num_requests(); ++r) {
      for (int i = 0; i < case_.requests[r].q_len; ++i) {
        for (int head = 0; head < case_.shape.num_heads; ++head) {
          const int row = q_start_[r] + i;
          if (next == expected_.size()) expected_.push_back(reference(r, row, head));
          const std::vector<double>& expected = expected_[next++];
          std::vector<double> actual(expected.size());
          const size_t at = static_cast<size_t>(row * y_stride_ + head * layout_.head_dim);
          for (size_t d = 0; d < actual.size(); ++d) {
            uint32_t bits = 0;
            std::memcpy(&bits, found.data() + (at + d) * size, size);
            actual[d] = gpu::testing::decode(case_.shape.element, bits);
            written[at + d] = true;
          }
          const double error = relative_error(actual, expected);
          worst = std::max(worst, std::isnan(error) ? 1e9 : error);
          ASSERT_LT(worst, tolerance)
              << "request " << r << " (" << case_.requests[r].q_len << " of "
              << case_.requests[r].kv_len << "), its row " << i << ", head " << head;
        }
      }
    }
    for (size_t i = 0; i < written.size() * size; ++i) {
      if (!written[i / size]) {
        ASSERT_EQ(found[i], std::byte{0xCD}) << "y is touched past the live rows, at byte " << i;
      }
    }
  }

 private:
  int32_t num_requests() const { return static_cast<int32_t>(case_.requests.size()); }
  int32_t count_tokens() const {
    int32_t total = 0;
    for (const RequestLengths& request : case_.requests) total += request.q_len;
    return total;
  }
  int64_t row_elements() const { return int64_t{case_.shape.num_heads} * layout_.head_dim; }
  // Twice the usual, so that a few keys stand out and a lost one shows.
  float scale() const { return 2.0F / std::sqrt(static_cast<float>(layout_.head_dim)); }

  // Every request's pages, scattered, some pages of nobody between them, the last one the sink.
  void make_pages() {
    q_start_ = {0};
    page_start_ = {0};
    for (const RequestLengths& request : case_.requests) {
      q_start_.push_back(q_start_.back() + request.q_len);
      page_start_.push_back(page_start_.back() +
                            (request.kv_len + layout_.page_size - 1) / layout_.page_size);
      kv_len_.push_back(request.kv_len);
    }
    num_pages_ = page_start_.back() + 5;
    std::vector<int32_t> all(static_cast<size_t>(num_pages_ - 1));
    std::iota(all.begin(), all.end(), 0);
    std::mt19937 engine(case_.seed);
    std::shuffle(all.begin(), all.end(), engine);
    page_ids_.assign(all.begin(), all.begin() + page_start_.back());
    // What lies past the live requests must not be followed.
    q_start_.resize(static_cast<size_t>(bounds_.max_requests) + 1, 1 << 28);
    page_start_.resize(static_cast<size_t>(bounds_.max_requests) + 1, 1 << 28);
    kv_len_.resize(static_cast<size_t>(bounds_.max_requests), 1 << 28);
    page_ids_.push_back(num_pages_ - 1);
  }

  size_t key_at(int request, int key, int kv_head) const {
    const int64_t page = page_ids_[page_start_[request] + key / layout_.page_size];
    return static_cast<size_t>(page * 2 * layout_.half_elements() +
                               kv_head * layout_.head_elements() +
                               key % layout_.page_size * layout_.head_dim);
  }

  void fill_values() {
    std::mt19937 engine(case_.seed + 1);
    std::normal_distribution<float> normal(0.0F, 1.0F);
    const auto draw = [&](Element element) {
      return gpu::testing::decode(element, encode(element, normal(engine)));
    };
    pages_.values.assign(static_cast<size_t>(num_pages_ * 2 * layout_.half_elements()),
                         case_.stale);
    for (int r = 0; r < num_requests(); ++r) {
      for (int key = 0; key < kv_len_[r]; ++key) {
        for (int head = 0; head < layout_.num_kv_heads; ++head) {
          const size_t at = key_at(r, key, head);
          for (int d = 0; d < layout_.head_dim; ++d) {
            pages_.values[at + d] = draw(layout_.element);
            pages_.values[at + layout_.half_elements() + d] = draw(layout_.element);
          }
        }
      }
    }
    for (int row = 0; row < num_tokens_; ++row) {
      for (int64_t i = 0; i < row_elements(); ++i)
        q_.values[row * q_stride_ + i] = draw(case_.shape.element);
    }
    q_device_.put(q_.bytes());
    pages_device_.put(pages_.bytes());
    q_start_device_.put(q_start_);
    kv_len_device_.put(kv_len_);
    page_start_device_.put(page_start_);
    page_ids_device_.put(page_ids_);
  }

  std::vector<double> reference(int request, int row, int head) const {
    const int kv_head = head / (case_.shape.num_heads / layout_.num_kv_heads);
    const int num_keys = kv_len_[request] - (q_start_[request + 1] - 1 - row);
    const float* q = q_.values.data() + row * q_stride_ + head * layout_.head_dim;
    std::vector<double> scores(static_cast<size_t>(num_keys));
    for (int key = 0; key < num_keys; ++key) {
      const float* k = pages_.values.data() + key_at(request, key, kv_head);
      double dot = 0.0;
      for (int d = 0; d < layout_.head_dim; ++d) dot += static_cast<double>(q[d]) * k[d];
      scores[key] = dot * scale();
    }
    const double highest = *std::max_element(scores.begin(), scores.end());
    std::vector<double> y(static_cast<size_t>(layout_.head_dim), 0.0);
    double total = 0.0;
    for (int key = 0; key < num_keys; ++key) {
      const double weight = std::exp(scores[key] - highest);
      const float* v =
          pages_.values.data() + key_at(request, key, kv_head) + layout_.half_elements();
      total += weight;
      for (int d = 0; d < layout_.head_dim; ++d) y[d] += weight * v[d];
    }
    for (double& value : y) value /= total;
    return y;
  }

  AttentionCase case_;
  KvLayout layout_;
  int32_t num_tokens_;
  AttentionBounds bounds_;
  int64_t q_stride_;
  int64_t y_stride_;
  int32_t num_pages_ = 0;
  std::vector<int32_t> q_start_, kv_len_, page_start_, page_ids_;
  Tensor q_;
  Tensor pages_;
  std::vector<std::vector<double>> expected_;  // of each row and head, once computed
  DeviceBuffer<std::byte> q_device_{q_.values.size() *
                                    static_cast<size_t>(element_bytes(case_.shape.element))};
  DeviceBuffer<std::byte> y_{static_cast<size_t>(bounds_.max_tokens * y_stride_) *
                             static_cast<size_t>(element_bytes(case_.shape.element))};
  DeviceBuffer<std::byte> pages_device_{count_page_bytes()};
  DeviceBuffer<int32_t> num_requests_device_{1};
  DeviceBuffer<int32_t> q_start_device_{static_cast<size_t>(bounds_.max_requests + 1)};
  DeviceBuffer<int32_t> kv_len_device_{static_cast<size_t>(bounds_.max_requests)};
  DeviceBuffer<int32_t> page_start_device_{static_cast<size_t>(bounds_.max_requests + 1)};
  DeviceBuffer<int32_t> page_ids_device_{count_page_ids()};
  DeviceBuffer<std::byte> workspace_{attention_workspace_bytes(case_.shape, bounds_, case_.path)};

  size_t count_page_ids() const {
    int32_t pages = 1;
    for (const RequestLengths& request : case_.requests)
      pages += (request.kv_len + layout_.page_size - 1) / layout_.page_size;
    return static_cast<size_t>(pages);
  }
  size_t count_page_bytes() const {
    return (count_page_ids() + 4) * static_cast<size_t>(layout_.page_bytes());
  }
};

// Lanes that a path's kernels are for; 0: any.
inline int32_t lanes_of(AttentionPath path) {
  if (path == AttentionPath::kPlain) return 0;
  return path == AttentionPath::kMfma ? 64 : 32;
}

// Whether `path` runs here.
inline bool has_path([[maybe_unused]] const AttentionShape& shape, AttentionPath path) {
#if defined(ENCORE_GPU_CUDA)
  switch (path) {
    case AttentionPath::kPlain:
      return true;
    case AttentionPath::kTensor:
    case AttentionPath::kMma:
      return compute_capability() >= 80;
    case AttentionPath::kHopper:
      return attention_path(shape, {compute_capability(), 32, MatrixUnit::kMma}) == path;
    default:
      return false;
  }
#else
  return kOnCpu && path != AttentionPath::kHopper;
#endif
}

// Every case on a GPU, one in `step` where kernels run on the host, a thousand times slower.
template <typename T>
std::vector<T> thinned(const std::vector<T>& cases, size_t step = 4) {
  std::vector<T> result;
  for (size_t i = 0; i < cases.size(); i += kOnCpu ? step : 1) result.push_back(cases[i]);
  return result;
}

// Plans, then runs and checks two layers by one plan; and again over a workspace full of other
// bytes, which on the host is the only time with two layers.
inline void check_case(const AttentionCase& which, Launch launch) {
  if (!has_path(which.shape, which.path)) GTEST_SKIP() << "not a path of this device";
  launch.lanes = lanes_of(which.path) > 0 ? lanes_of(which.path) : which.lanes;
  AttentionStep step(which);
  for (const int poison : {0x00, 0xFF}) {
    step.workspace().fill(poison);
    ENCORE_GPU_OK(step.plan(launch));
    for (int layer = 0; layer < (kOnCpu && poison == 0 ? 1 : 2); ++layer) {
      step.poison_output();
      ENCORE_GPU_OK(step.run(launch));
      step.check();
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace encore::gpu::testing
