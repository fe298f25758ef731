// The gated product against float64, in every variant, and what it promises about rows and bits.
#include <string>

#include "gpu_test_support.h"
#include "kernels/gpu/gated_linear.h"
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
constexpr int32_t kVariants = 3;

// A problem on the device; y has one row more than it needs.
class Product {
 public:
  Product(const Operands& o, bool bias)
      : o_(o),
        has_bias_(bias),
        columns_(o.n / 2),
        w_(o.w),
        x_(o.x),
        bias_(o.bias),
        live_(1),
        y_(static_cast<size_t>(o.m + 1) * columns_) {}

  GatedLinearProblem problem() {
    GatedLinearProblem q;
    q.rows = {live_.get(), o_.m};
    q.n = o_.n, q.k = o_.k;
    q.w = w_.get(), q.x = x_.get(), q.y = y_.get();
    q.bias = has_bias_ ? bias_.get() : nullptr;
    return q;
  }

  // Rows of x from `first` to `last` become NaN.
  void poison(int first, int last) {
    std::vector<uint16_t> x = o_.x;
    std::fill(x.begin() + static_cast<size_t>(first) * o_.k,
              x.begin() + static_cast<size_t>(last) * o_.k, kNan);
    x_.put(x);
  }

  void run(int32_t variant, int live, const Launch& launch) {
    GatedLinearPlan plan;
    ENCORE_GPU_OK(gated_linear_plan(problem(), variant, &plan));
    live_.put(std::vector<int32_t>{live});
    y_.put(std::vector<uint16_t>(y_.size(), kPoison));
    ENCORE_GPU_OK(gated_linear_run(plan, launch));
    y = y_.host();
  }

  void expect_right(int live) const {
    for (int r = 0; r < live; ++r) {
      std::vector<double> found(columns_);
      std::vector<double> want(columns_);
      for (int c = 0; c < columns_; ++c) {
        found[c] = from_bf16(y[static_cast<size_t>(r) * columns_ + c]), want[c] = expected(r, c);
      }
      // Rounding to bf16 once gives 1.7e-3 of a long row, and up to 2^-8 of a few values; here are
      // three of them.
      const double error = testing::relative_error(found, want);
      ASSERT_TRUE(error < 3.0 / 256) << "row " << r << ": relative error " << error;
    }
    for (size_t i = static_cast<size_t>(live) * columns_; i < y.size(); ++i) {
      ASSERT_EQ(y[i], kPoison) << "row " << i / columns_ << " is written";
    }
  }

  bool same_row(const Product& other, int row) const {
    const size_t at = static_cast<size_t>(row) * columns_;
    return std::equal(&y[at], &y[at] + columns_, &other.y[at]);
  }

  std::vector<uint16_t> y;

 private:
  double expected(int row, int column) const {
    auto sum = [&](int c) { return o_.sum(row, c) + (has_bias_ ? from_bf16(o_.bias[c]) : 0.0); };
    const double gate = sum(column);
    return gate / (1.0 + std::exp(-gate)) * sum(columns_ + column);
  }

  const Operands& o_;
  bool has_bias_;
  int columns_;
  DeviceBuffer<uint16_t> w_, x_, bias_;
  DeviceBuffer<int32_t> live_;
  DeviceBuffer<uint16_t> y_;
};

class GatedLinearTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    Product probe(operands(1, 16, 512), false);
    GatedLinearPlan plan;
    if (gated_linear_plan(probe.problem(), 0, &plan) == cudaErrorNotSupported) {
      GTEST_SKIP() << "not a device of compute capability 9.0";
    }
    ASSERT_EQ(gated_linear_num_variants(probe.problem()), kVariants);
  }

  // All variants give the same bits.
  void check_all_variants(const Operands& o, bool bias, std::initializer_list<int> lives) {
    Product product(o, bias);
    for (const int live : lives) {
      std::vector<uint16_t> first;
      for (int32_t variant = 0; variant < kVariants; ++variant) {
        SCOPED_TRACE("variant " + std::to_string(variant) + ", live " + std::to_string(live) +
                     " of " + std::to_string(o.m));
        product.poison(live, o.m);
        product.run(variant, live, launch_);
        if (!HasFailure()) product.expect_right(live);
        if (HasFailure()) return;
        if (variant == 0) first = product.y;
        ASSERT_TRUE(product.y == first);
      }
    }
  }
};

// Rows and columns that end inside a tile; a ring that wraps.
TEST_F(GatedLinearTest, MultipliesGateAndUp) {
  const Operands& o = operands(300, 912, 768);
  check_all_variants(o, false, {300, 129, 128, 1, 0});
  check_all_variants(o, true, {257});
}

// One row of tiles: weights come before the live count is known.
TEST_F(GatedLinearTest, OneRowOfTiles) {
  check_all_variants(operands(77, 1040, 1024), false, {77, 64, 3, 0});
}

TEST_F(GatedLinearTest, SmallestShape) { check_all_variants(operands(1, 16, 512), true, {1, 0}); }

// More tiles than multiprocessors: clusters go on to further tiles.
TEST_F(GatedLinearTest, WalksOverManyTiles) {
  check_all_variants(operands(520, 9008, 512), true, {520, 385});
}
// More than one group of rows.
TEST_F(GatedLinearTest, WalksOverGroupsOfRows) {
  check_all_variants(operands(4500, 528, 512), false, {4500, 2049});
}

TEST_F(GatedLinearTest, RowsThatHoldNanLeaveOthersAlone) {
  const Operands& o = operands(300, 912, 768);
  Product clean(o, false);
  Product dirty(o, false);
  dirty.poison(100, 141);
  for (int32_t variant = 0; variant < kVariants; ++variant) {
    SCOPED_TRACE(variant);
    clean.run(variant, 300, launch_);
    dirty.run(variant, 300, launch_);
    if (HasFailure()) return;
    for (int r = 0; r < 300; ++r) {
      ASSERT_EQ(clean.same_row(dirty, r), r < 100 || r >= 141) << "row " << r;
    }
  }
}

// A row gives the same bits among 300 rows and among 77.
TEST_F(GatedLinearTest, BitsDoNotDependOnTheNumberOfRows) {
  const Operands& many = operands(300, 912, 768);
  const Operands& few = operands(77, 912, 768);
  Product among_many(many, false);
  Product among_few(few, false);
  for (int32_t variant = 0; variant < kVariants; ++variant) {
    SCOPED_TRACE(variant);
    among_many.run(variant, 300, launch_);
    among_few.run(variant, 77, launch_);
    if (HasFailure()) return;
    for (int r = 0; r < 77; ++r) ASSERT_TRUE(among_few.same_row(among_many, r)) << "row " << r;
  }
}

TEST_F(GatedLinearTest, EveryRunGivesTheSameBits) {
  const Operands& o = operands(300, 912, 768);
  Product first(o, true);
  Product again(o, true);
  for (int32_t variant = 0; variant < kVariants; ++variant) {
    SCOPED_TRACE(variant);
    first.run(variant, 300, launch_);
    for (int i = 0; i < 5; ++i) {
      again.run(variant, 300, launch_);
      if (HasFailure()) return;
      ASSERT_TRUE(first.y == again.y);
    }
  }
}

// Products that read what the one before wrote: starting early must not change a bit.
TEST_F(GatedLinearTest, OverlapKeepsBits) {
  const int width = 1024;
  for (const int m : {100, 700}) {
    const Operands& o = operands(m, 2 * width, width);
    DeviceBuffer<uint16_t> w(o.w);
    DeviceBuffer<uint16_t> x(o.x);
    DeviceBuffer<uint16_t> hidden(o.x.size());
    GatedLinearProblem there;
    there.rows = {nullptr, m};
    there.n = 2 * width, there.k = width;
    there.w = w.get(), there.x = x.get(), there.y = hidden.get();
    GatedLinearProblem back = there;
    back.x = hidden.get(), back.y = x.get();
    for (int32_t variant = 0; variant < kVariants; ++variant) {
      SCOPED_TRACE(variant);
      GatedLinearPlan plans[2];
      ENCORE_GPU_OK(gated_linear_plan(there, variant, &plans[0]));
      ENCORE_GPU_OK(gated_linear_plan(back, variant, &plans[1]));
      std::vector<uint16_t> serial;
      for (int repeat = 0; repeat < 8; ++repeat) {
        x.put(o.x);
        launch_.overlap = repeat > 0;
        for (int i = 0; i < 4; ++i) ENCORE_GPU_OK(gated_linear_run(plans[i % 2], launch_));
        const std::vector<uint16_t> found = x.host();
        if (repeat == 0) serial = found;
        ASSERT_TRUE(found == serial) << "repeat " << repeat;
      }
    }
  }
}

TEST(GatedLinearContractTest, RefusesWhatItDoesNotServe) {
  alignas(16) static unsigned char memory[32];
  GatedLinearProblem good;
  good.rows.maximum = 8, good.n = 16, good.k = 512;
  good.w = memory, good.x = memory, good.y = memory;
  ASSERT_TRUE(gated_linear_serves(good));
  GatedLinearProblem q = good;
  q.k = 544;
  EXPECT_FALSE(gated_linear_serves(q));
  q = good, q.k = 448;
  EXPECT_FALSE(gated_linear_serves(q));
  q = good, q.n = 24;
  EXPECT_FALSE(gated_linear_serves(q));
  q = good, q.rows.maximum = 0;
  EXPECT_FALSE(gated_linear_serves(q));
  q = good, q.x = memory + 2;
  EXPECT_FALSE(gated_linear_serves(q));
  GatedLinearPlan plan;
  EXPECT_EQ(gated_linear_plan(q, 0, &plan), cudaErrorInvalidValue);
  EXPECT_EQ(gated_linear_plan(good, kVariants, &plan), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace encore::gpu
