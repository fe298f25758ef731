// A problem of the weight-streaming product on the device, and what float64 makes of it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu_test_support.h"
#include "kernels/gpu/decode_linear.h"
#include "product_operands.h"

namespace encore::gpu::testing {

inline constexpr int kMostRows = kDecodeLinearMaxRows;
inline constexpr int kNumSumsq = 37;  // no multiple of the four lanes that add them
inline constexpr float kEps = 1e-5F;

// Operands of a shape for 64 rows, and of the norm that is folded in.
struct StreamOperands : Operands {
  std::vector<uint16_t> norm_weight;
  std::vector<float> sumsq;   // [64, kNumSumsq]
  std::vector<double> scale;  // [64]

  StreamOperands(int n_, int k_)
      : Operands(kMostRows, n_, k_), norm_weight(random_bf16(static_cast<size_t>(n_), 5)) {
    sumsq.resize(static_cast<size_t>(kMostRows) * kNumSumsq);
    for (size_t i = 0; i < sumsq.size(); ++i) {
      sumsq[i] = static_cast<float>(k) / kNumSumsq * (0.5F + static_cast<float>(i % 11) / 8.0F);
    }
    for (int r = 0; r < kMostRows; ++r) {
      double sum = 0.0;
      for (int i = 0; i < kNumSumsq; ++i) sum += sumsq[static_cast<size_t>(r) * kNumSumsq + i];
      scale.push_back(1.0 / std::sqrt(sum / k + kEps));
    }
  }
};

// Made once a shape.
inline const StreamOperands& stream_operands(int n, int k) {
  static std::map<std::pair<int, int>, std::unique_ptr<StreamOperands>> made;
  auto& found = made[{n, k}];
  if (!found) found = std::make_unique<StreamOperands>(n, k);
  return *found;
}

struct Kind {
  DecodeEpilogue epilogue = DecodeEpilogue::kStore;
  bool norm = false;  // for kAdd also: x_out and sumsq_out
  bool bias = false;
  Element output = Element::kBF16;
};

// A problem on the device, with one row of outputs more than it has.
class Product {
 public:
  Product(const StreamOperands& o, const Kind& kind, int m)
      : o_(o),
        kind_(kind),
        m_(m),
        out_n_(kind.epilogue == DecodeEpilogue::kSiluMul ? o.n / 2 : o.n),
        w_(o.w),
        x_(o.x),
        bias_(o.bias),
        norm_weight_(o.norm_weight),
        sumsq_(o.sumsq),
        y_(static_cast<size_t>(m + 1) * out_n_ * element_bytes(kind.output)),
        x_out_(static_cast<size_t>(m + 1) * o.n),
        sumsq_out_(static_cast<size_t>(m + 1) * kDecodeLinearMaxSumsq) {}

  DecodeLinearProblem problem() {
    DecodeLinearProblem q;
    q.m = m_, q.n = o_.n, q.k = o_.k;
    q.w = w_.get(), q.x = x_.get(), q.y = y_.get();
    q.bias = kind_.bias ? bias_.get() : nullptr;
    q.epilogue = kind_.epilogue;
    q.output = kind_.output;
    if (kind_.norm) q.sumsq = sumsq_.get(), q.num_sumsq = kNumSumsq, q.eps = kEps;
    if (kind_.norm && kind_.epilogue == DecodeEpilogue::kAdd) {
      q.norm_weight = norm_weight_.get(), q.x_out = x_out_.get();
      q.sumsq_out = sumsq_out_.get();
    }
    return q;
  }

  // Fills rows from `live` on with NaN, in all inputs.
  void poison(int live) {
    std::vector<uint16_t> x = o_.x;
    std::fill(x.begin() + static_cast<size_t>(live) * o_.k, x.end(), uint16_t{0x7fc0});
    x_.put(x);
    std::vector<float> sumsq = o_.sumsq;
    std::fill(sumsq.begin() + static_cast<size_t>(live) * kNumSumsq, sumsq.end(), NAN);
    sumsq_.put(sumsq);
    first_poisoned_ = live;
  }

  void run(const DecodeLinearPlan& plan, const Launch& launch) {
    num_sumsq_out_ = plan.num_sumsq_out;
    y_.fill(0xCD), x_out_.fill(0xCD), sumsq_out_.fill(0xCD);
    if (kind_.epilogue == DecodeEpilogue::kAdd) {
      std::vector<uint16_t> y(o_.y0.begin(), o_.y0.begin() + static_cast<size_t>(m_) * o_.n);
      if (first_poisoned_ < m_) {
        std::fill(y.begin() + static_cast<size_t>(first_poisoned_) * o_.n, y.end(),
                  uint16_t{0x7fc0});
      }
      y_.put({reinterpret_cast<const uint8_t*>(y.data()), y.size() * 2});
    }
    ENCORE_GPU_OK(decode_linear_run(plan, launch));
    y = y_.host(), x_out = x_out_.host(), sumsq_out = sumsq_out_.host();
  }

  double value(int row, int column) const {
    const size_t at = static_cast<size_t>(row) * out_n_ + column;
    if (kind_.output == Element::kF32) return reinterpret_cast<const float*>(y.data())[at];
    return from_bf16(reinterpret_cast<const uint16_t*>(y.data())[at]);
  }

  double expected(int row, int column) const {
    auto sum = [&](int c) {
      return o_.sum(row, c) * (kind_.norm ? o_.scale[row] : 1.0) +
             (kind_.bias ? from_bf16(o_.bias[c]) : 0.0);
    };
    const double value = sum(column);
    switch (kind_.epilogue) {
      case DecodeEpilogue::kSiluMul:
        return value / (1.0 + std::exp(-value)) * sum(out_n_ + column);
      case DecodeEpilogue::kAdd:
        return value + from_bf16(o_.y0[static_cast<size_t>(row) * o_.n + column]);
      case DecodeEpilogue::kStore:
        break;
    }
    return value;
  }

  void expect_right() const {
    // Rounding to bf16 alone gives 1.7e-3 of a long row, and up to 2^-8 of a few values; f32 sums
    // of exact products about 1e-6.
    const double limit = kind_.output == Element::kF32 ? 1e-5 : 1.0 / 256;
    for (int r = 0; r < m_; ++r) {
      std::vector<double> found(out_n_);
      std::vector<double> want(out_n_);
      for (int c = 0; c < out_n_; ++c) found[c] = value(r, c), want[c] = expected(r, c);
      const double error = relative_error(found, want);
      ASSERT_TRUE(error < limit) << "row " << r << ": relative error " << error;
    }
    expect_poison(y, static_cast<size_t>(m_) * out_n_ * element_bytes(kind_.output), "y");
    if (num_sumsq_out_ > 0) expect_right_norm_inputs();
  }

  std::vector<uint8_t> y;
  std::vector<uint16_t> x_out;
  std::vector<float> sumsq_out;

  // All that the product says about a row, as bytes.
  std::string row_bytes(int row) const {
    const size_t bytes = static_cast<size_t>(out_n_) * element_bytes(kind_.output);
    std::string all(reinterpret_cast<const char*>(y.data()) + row * bytes, bytes);
    if (num_sumsq_out_ > 0) {
      all.append(reinterpret_cast<const char*>(&x_out[static_cast<size_t>(row) * o_.n]),
                 static_cast<size_t>(o_.n) * 2);
      all.append(reinterpret_cast<const char*>(&sumsq_out[row * num_sumsq_out_]),
                 static_cast<size_t>(num_sumsq_out_) * 4);
    }
    return all;
  }

 private:
  void expect_right_norm_inputs() const {
    for (int r = 0; r < m_; ++r) {
      double want = 0.0;
      double found = 0.0;
      for (int i = 0; i < num_sumsq_out_; ++i) found += sumsq_out[r * num_sumsq_out_ + i];
      for (int c = 0; c < o_.n; ++c) {
        const float h = static_cast<float>(value(r, c));
        want += static_cast<double>(h) * h;
        ASSERT_EQ(x_out[static_cast<size_t>(r) * o_.n + c],
                  to_bf16(h * from_bf16(o_.norm_weight[c])));
      }
      ASSERT_TRUE(std::abs(found - want) < 1e-5 * want) << found << " is not " << want;
    }
    expect_poison(x_out, static_cast<size_t>(m_) * o_.n, "x_out");
    expect_poison(sumsq_out, static_cast<size_t>(m_) * num_sumsq_out_, "sumsq_out");
  }
  template <typename T>
  static void expect_poison(const std::vector<T>& values, size_t first, const char* name) {
    const std::vector<uint8_t> untouched(sizeof(T), 0xCD);
    for (size_t i = first; i < values.size(); ++i) {
      ASSERT_EQ(std::memcmp(&values[i], untouched.data(), sizeof(T)), 0)
          << name << " is written past its last row, at " << i - first;
    }
  }

  const StreamOperands& o_;
  Kind kind_;
  int m_;
  int out_n_;
  int first_poisoned_ = kMostRows;
  int num_sumsq_out_ = 0;
  DeviceBuffer<uint16_t> w_, x_, bias_, norm_weight_;
  DeviceBuffer<float> sumsq_;
  DeviceBuffer<uint8_t> y_;
  DeviceBuffer<uint16_t> x_out_;
  DeviceBuffer<float> sumsq_out_;
};

}  // namespace encore::gpu::testing
