// The split product against float64, in every variant, and what it promises about rows and bits.
#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gpu_test_support.h"
#include "kernels/gpu/split_linear.h"
#include "product_operands.h"

namespace encore::gpu {
namespace {

using testing::DeviceBuffer;
using testing::from_bf16;
using testing::GpuTest;
using testing::Operands;
using testing::operands;

constexpr uint16_t kNan = 0x7fc0;
constexpr uint16_t kPoison = 0xCDCD;
// Variants, by how many parts they cut k into.
constexpr int kParts[] = {2, 2, 2, 4, 4};
constexpr auto kVariants = static_cast<int32_t>(std::size(kParts));

struct Kind {
  bool bias = false;
  bool accumulate = false;
};

// A problem on the device; y has one row more than it needs.
class Product {
 public:
  Product(const Operands& o, const Kind& kind)
      : o_(o),
        kind_(kind),
        w_(o.w),
        x_(o.x),
        bias_(o.bias),
        live_(1),
        y_(static_cast<size_t>(o.m + 1) * o.n) {}

  SplitLinearProblem problem() {
    SplitLinearProblem q;
    q.rows = {live_.get(), o_.m};
    q.n = o_.n, q.k = o_.k;
    q.w = w_.get(), q.x = x_.get(), q.y = y_.get();
    q.bias = kind_.bias ? bias_.get() : nullptr;
    q.accumulate = kind_.accumulate;
    return q;
  }

  // Rows of x from `first` to `last` become NaN.
  void poison(int first, int last) {
    std::vector<uint16_t> x = o_.x;
    std::fill(x.begin() + static_cast<ptrdiff_t>(first) * o_.k,
              x.begin() + static_cast<ptrdiff_t>(last) * o_.k, kNan);
    x_.put(x);
  }

  void run(int32_t variant, int live, const Launch& launch) {
    SplitLinearPlan plan;
    ENCORE_GPU_OK(split_linear_plan(problem(), variant, &plan));
    live_.put(std::vector<int32_t>{live});
    std::vector<uint16_t> before(y_.size(), kPoison);
    if (kind_.accumulate) std::copy_n(o_.y0.begin(), live * o_.n, before.begin());
    y_.put(before);
    ENCORE_GPU_OK(split_linear_run(plan, launch));
    y = y_.host();
  }

  void expect_right(int live) const {
    for (int r = 0; r < live; ++r) {
      std::vector<double> found(static_cast<size_t>(o_.n));
      std::vector<double> want(found.size());
      for (int c = 0; c < o_.n; ++c) {
        const size_t at = static_cast<size_t>(r) * o_.n + c;
        found[c] = from_bf16(y[at]);
        want[c] = o_.sum(r, c) + (kind_.bias ? from_bf16(o_.bias[c]) : 0.0) +
                  (kind_.accumulate ? from_bf16(o_.y0[at]) : 0.0);
      }
      // Rounding to bf16 alone gives 1.7e-3 of a long row, and up to 2^-8 of a few values.
      const double error = testing::relative_error(found, want);
      ASSERT_TRUE(error < 1.0 / 256) << "row " << r << ": relative error " << error;
    }
    for (size_t i = static_cast<size_t>(live) * o_.n; i < y.size(); ++i) {
      ASSERT_EQ(y[i], kPoison) << "row " << i / o_.n << " is written";
    }
  }

  bool same_row(const Product& other, int row) const {
    const auto at = static_cast<ptrdiff_t>(row) * o_.n;
    return std::equal(y.begin() + at, y.begin() + at + o_.n, other.y.begin() + at);
  }

  std::vector<uint16_t> y;

 private:
  const Operands& o_;
  Kind kind_;
  DeviceBuffer<uint16_t> w_, x_, bias_;
  DeviceBuffer<int32_t> live_;
  DeviceBuffer<uint16_t> y_;
};

class SplitLinearTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    Product probe(operands(1, 8, 256), {});
    SplitLinearPlan plan;
    if (split_linear_plan(probe.problem(), 0, &plan) == cudaErrorNotSupported) {
      GTEST_SKIP() << "not a device of compute capability 9.0";
    }
    ASSERT_EQ(split_linear_num_variants(probe.problem()), kVariants);
  }

  // Variants that cut k alike give the same bits.
  void check_all_variants(const Operands& o, const Kind& kind, std::initializer_list<int> lives) {
    Product product(o, kind);
    for (const int live : lives) {
      product.poison(live, o.m);
      std::map<int, std::vector<uint16_t>> first;  // by parts
      for (int32_t variant = 0; variant < kVariants; ++variant) {
        SCOPED_TRACE("variant " + std::to_string(variant) + ", live " + std::to_string(live) +
                     " of " + std::to_string(o.m));
        product.run(variant, live, launch_);
        if (!HasFailure()) product.expect_right(live);
        if (HasFailure()) return;
        const auto [at, is_new] = first.emplace(kParts[variant], product.y);
        if (!is_new) ASSERT_TRUE(product.y == at->second);
      }
    }
  }
};

// A column count that ends inside a tile, in every variant, and steps of k that parts cannot share
// equally; more of them than a ring has stages.
TEST_F(SplitLinearTest, StoresProductsInEveryVariant) {
  check_all_variants(operands(128, 1000, 2240), {}, {128, 97, 65, 0});
  check_all_variants(operands(128, 1000, 2240), {true, false}, {127});
}
TEST_F(SplitLinearTest, AddsInEveryVariant) {
  check_all_variants(operands(128, 1000, 2240), {false, true}, {128, 33});
  check_all_variants(operands(128, 1000, 2240), {true, true}, {100});
}
TEST_F(SplitLinearTest, ServesFewRows) {
  check_all_variants(operands(96, 520, 832), {false, true}, {96, 20});
  check_all_variants(operands(9, 520, 832), {true, false}, {9});
}
TEST_F(SplitLinearTest, SmallestShape) {
  check_all_variants(operands(1, 8, 256), {true, true}, {1, 0});
  check_all_variants(operands(2, 200, 1600), {false, true}, {2});  // rings wrap
}

// Products of models, on weights that repeat: fewer blocks than a device has
// multiprocessors, and more; some columns against the host.
TEST_F(SplitLinearTest, ServesTheShapesOfModels) {
  struct Shape {
    int n, k;
  };
  constexpr size_t kPeriod = 1000003;
  constexpr int kM = 128;
  const std::vector<uint16_t> block = testing::random_bf16(kPeriod, 9, 0.05F);
  for (const Shape& shape : {Shape{6144, 4096}, Shape{4096, 14336}, Shape{3072, 2048}}) {
    std::vector<uint16_t> w(static_cast<size_t>(shape.n) * shape.k);
    for (size_t at = 0; at < w.size(); at += kPeriod) {
      std::copy_n(block.begin(), std::min(kPeriod, w.size() - at),
                  w.begin() + static_cast<ptrdiff_t>(at));
    }
    const std::vector<uint16_t> x = testing::random_bf16(static_cast<size_t>(kM) * shape.k, 10);
    DeviceBuffer<uint16_t> w_device(w);
    DeviceBuffer<uint16_t> x_device(x);
    DeviceBuffer<uint16_t> y(static_cast<size_t>(kM) * shape.n);
    SplitLinearProblem q;
    q.rows = {nullptr, kM}, q.n = shape.n, q.k = shape.k;
    q.w = w_device.get(), q.x = x_device.get(), q.y = y.get();
    for (int32_t v = 0; v < kVariants; ++v) {
      SCOPED_TRACE("n " + std::to_string(shape.n) + " variant " + std::to_string(v));
      y.fill(0);
      SplitLinearPlan plan;
      ENCORE_GPU_OK(split_linear_plan(q, v, &plan));
      ENCORE_GPU_OK(split_linear_run(plan, launch_));
      const std::vector<uint16_t> found = y.host();
      for (int i = 0; i < 60; ++i) {
        const int column = i == 0 ? shape.n - 1 : static_cast<int>(7919LL * 13 * i % shape.n);
        const int row = 37 * i % kM;
        double want = 0.0;
        for (int j = 0; j < shape.k; ++j) {
          want += static_cast<double>(from_bf16(x[static_cast<size_t>(row) * shape.k + j])) *
                  from_bf16(w[static_cast<size_t>(column) * shape.k + j]);
        }
        const double got = from_bf16(found[static_cast<size_t>(row) * shape.n + column]);
        // One bf16 rounding is 2^-9 of the value; sums are about 3, their f32 error below 1e-5.
        ASSERT_NEAR(got, want, std::abs(want) / 250 + 1e-4) << column;
      }
      if (HasFailure()) return;
    }
  }
}

TEST_F(SplitLinearTest, RowsThatHoldNanLeaveOthersAlone) {
  const Operands& o = operands(128, 1000, 2240);
  Product clean(o, {});
  Product dirty(o, {});
  dirty.poison(40, 71);
  for (int32_t variant = 0; variant < kVariants; ++variant) {
    SCOPED_TRACE(variant);
    clean.run(variant, 128, launch_);
    dirty.run(variant, 128, launch_);
    if (HasFailure()) return;
    for (int r = 0; r < 128; ++r) {
      ASSERT_EQ(clean.same_row(dirty, r), r < 40 || r >= 71) << "row " << r;
    }
  }
}

// A row gives the same bits among 128 rows and among 77.
TEST_F(SplitLinearTest, BitsDoNotDependOnTheNumberOfRows) {
  Product among_many(operands(128, 520, 832), {});
  Product among_few(operands(77, 520, 832), {});
  for (int32_t variant = 0; variant < kVariants; ++variant) {
    SCOPED_TRACE(variant);
    among_many.run(variant, 128, launch_);
    among_few.run(variant, 77, launch_);
    if (HasFailure()) return;
    for (int r = 0; r < 77; ++r) ASSERT_TRUE(among_few.same_row(among_many, r)) << "row " << r;
  }
}

// Products that read what the one before wrote: starting early must not change a bit, and every run
// gives the same.
TEST_F(SplitLinearTest, OverlapKeepsBits) {
  const int width = 1024;
  const int m = 100;
  const Operands& o = operands(m, width, width);
  DeviceBuffer<uint16_t> w(o.w);
  DeviceBuffer<uint16_t> x(o.x);
  DeviceBuffer<uint16_t> hidden(o.y0);
  SplitLinearProblem there;
  there.rows = {nullptr, m};
  there.n = width, there.k = width;
  there.w = w.get(), there.x = x.get(), there.y = hidden.get(), there.accumulate = true;
  SplitLinearProblem back = there;
  back.x = hidden.get(), back.y = x.get(), back.accumulate = false;
  for (int32_t variant = 0; variant < kVariants; ++variant) {
    SCOPED_TRACE(variant);
    SplitLinearPlan plans[2];
    ENCORE_GPU_OK(split_linear_plan(there, variant, &plans[0]));
    ENCORE_GPU_OK(split_linear_plan(back, variant, &plans[1]));
    std::vector<uint16_t> serial;
    for (int repeat = 0; repeat < 6; ++repeat) {
      x.put(o.x);
      hidden.put(o.y0);
      launch_.overlap = repeat > 0;
      for (int i = 0; i < 8; ++i) ENCORE_GPU_OK(split_linear_run(plans[i % 2], launch_));
      const std::vector<uint16_t> found = x.host();
      if (repeat == 0) serial = found;
      ASSERT_TRUE(found == serial) << "repeat " << repeat;
    }
    ASSERT_TRUE(std::all_of(serial.begin(), serial.end(),
                            [](uint16_t v) { return std::isfinite(from_bf16(v)); }));
  }
}

TEST(SplitLinearContractTest, RefusesWhatItDoesNotServe) {
  alignas(16) static unsigned char memory[32];
  SplitLinearProblem good;
  good.rows.maximum = 128, good.n = 8, good.k = 256;
  good.w = memory, good.x = memory, good.y = memory;
  ASSERT_TRUE(split_linear_serves(good));
  const std::vector<std::function<void(SplitLinearProblem&)>> faults = {
      [](auto& q) { q.rows.maximum = 0; },
      [](auto& q) { q.rows.maximum = 129; },
      [](auto& q) { q.n = 12; },
      [](auto& q) { q.n = 0; },
      [](auto& q) { q.k = 192; },
      [](auto& q) { q.k = 288; },
      [](auto& q) { q.w = nullptr; },
      [](auto& q) { q.x = memory + 8; },
      [](auto& q) { q.bias = memory + 2; },
  };
  for (size_t i = 0; i < faults.size(); ++i) {
    SplitLinearProblem bad = good;
    faults[i](bad);
    EXPECT_FALSE(split_linear_serves(bad)) << "fault " << i;
    EXPECT_EQ(split_linear_num_variants(bad), 0) << "fault " << i;
    SplitLinearPlan plan;
    EXPECT_EQ(split_linear_plan(bad, 0, &plan), cudaErrorInvalidValue) << "fault " << i;
  }
  SplitLinearPlan plan;
  EXPECT_EQ(split_linear_plan(good, kVariants, &plan), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace encore::gpu
