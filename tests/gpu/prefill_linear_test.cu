// The prefill product against float64, in every form, and what it promises about rows and bits.
#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "gpu_test_support.h"
#include "kernels/gpu/prefill_linear.h"
#include "sm90/prefill_linear_tuning.h"

namespace encore::gpu {
namespace {

using testing::DeviceBuffer;
using testing::from_bf16;
using testing::GpuTest;
using testing::random_bf16;

constexpr auto kStore = PrefillEpilogue::kStore;
constexpr auto kSiluMul = PrefillEpilogue::kSiluMul;
constexpr auto kAdd = PrefillEpilogue::kAdd;
constexpr uint16_t kNan = 0x7fc0;
constexpr uint16_t kPoison = 0xCDCD;

// Operands of a shape, and the exact sums over k.
struct Operands {
  int m, n, k;
  std::vector<uint16_t> w, x, y0, bias;
  std::vector<double> exact;  // [m, n]

  Operands(int m_, int n_, int k_) : m(m_), n(n_), k(k_) {
    w = random_bf16(static_cast<size_t>(n) * k, 1, 0.1F);
    x = random_bf16(static_cast<size_t>(m) * k, 2);
    y0 = random_bf16(static_cast<size_t>(m) * n, 3);
    bias = random_bf16(n, 4);
    std::vector<float> wf(w.size());
    std::vector<float> xf(x.size());
    for (size_t i = 0; i < w.size(); ++i) wf[i] = from_bf16(w[i]);
    for (size_t i = 0; i < x.size(); ++i) xf[i] = from_bf16(x[i]);
    exact.resize(static_cast<size_t>(m) * n);
    for (int r = 0; r < m; ++r) {
      for (int c = 0; c < n; ++c) {
        const float* a = &xf[static_cast<size_t>(r) * k];
        const float* b = &wf[static_cast<size_t>(c) * k];
        double sum[8] = {};
        for (int i = 0; i < k; i += 8) {
          for (int j = 0; j < 8; ++j) sum[j] += static_cast<double>(a[i + j]) * b[i + j];
        }
        exact[static_cast<size_t>(r) * n + c] =
            ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
      }
    }
  }
};

const Operands& operands(int m, int n, int k) {
  static std::map<std::array<int, 3>, std::unique_ptr<Operands>> made;
  auto& found = made[{m, n, k}];
  if (!found) found = std::make_unique<Operands>(m, n, k);
  return *found;
}

// A problem on the device; y has one row more than it needs.
class Product {
 public:
  Product(const Operands& o, PrefillEpilogue epilogue, bool bias)
      : o_(o),
        epilogue_(epilogue),
        has_bias_(bias),
        out_n_(epilogue == kSiluMul ? o.n / 2 : o.n),
        w_(o.w),
        x_(o.x),
        bias_(o.bias),
        live_(1),
        y_(static_cast<size_t>(o.m + 1) * out_n_) {}

  PrefillLinearProblem problem() {
    PrefillLinearProblem q;
    q.rows = {live_.get(), o_.m};
    q.n = o_.n, q.k = o_.k;
    q.w = w_.get(), q.x = x_.get(), q.y = y_.get();
    q.bias = has_bias_ ? bias_.get() : nullptr;
    q.epilogue = epilogue_;
    return q;
  }

  // Rows of x from `first` to `last` become NaN.
  void poison(int first, int last) {
    std::vector<uint16_t> x = o_.x;
    std::fill(x.begin() + static_cast<size_t>(first) * o_.k,
              x.begin() + static_cast<size_t>(last) * o_.k, kNan);
    x_.put(x);
  }

  void run(const PrefillTuning& tuning, int live, const Launch& launch) {
    PrefillLinearPlan plan;
    ENCORE_GPU_OK(prefill_linear_plan_tuned(problem(), tuning, &plan));
    live_.put(std::vector<int32_t>{live});
    std::vector<uint16_t> before(y_.size(), kPoison);
    if (epilogue_ == kAdd) {
      std::copy_n(o_.y0.begin(), static_cast<size_t>(live) * o_.n, before.begin());
    }
    y_.put(before);
    ENCORE_GPU_OK(prefill_linear_run(plan, launch));
    y = y_.host();
  }

  void expect_right(int live) const {
    for (int r = 0; r < live; ++r) {
      std::vector<double> found(out_n_);
      std::vector<double> want(out_n_);
      for (int c = 0; c < out_n_; ++c) {
        found[c] = from_bf16(y[static_cast<size_t>(r) * out_n_ + c]), want[c] = expected(r, c);
      }
      // Rounding to bf16 alone gives 1.7e-3 of a long row, and up to 2^-8 of a few values; f32 sums
      // of exact products about 1e-6.
      const double error = testing::relative_error(found, want);
      ASSERT_TRUE(error < 1.0 / 256) << "row " << r << ": relative error " << error;
    }
    for (size_t i = static_cast<size_t>(live) * out_n_; i < y.size(); ++i) {
      ASSERT_EQ(y[i], kPoison) << "row " << i / out_n_ << " is written";
    }
  }

  bool same_row(const Product& other, int row) const {
    const size_t at = static_cast<size_t>(row) * out_n_;
    return std::equal(&y[at], &y[at] + out_n_, &other.y[at]);
  }

  std::vector<uint16_t> y;

 private:
  double expected(int row, int column) const {
    auto sum = [&](int c) {
      return o_.exact[static_cast<size_t>(row) * o_.n + c] +
             (has_bias_ ? from_bf16(o_.bias[c]) : 0.0);
    };
    const double value = sum(column);
    switch (epilogue_) {
      case kSiluMul:
        return value / (1.0 + std::exp(-value)) * sum(out_n_ + column);
      case kAdd:
        return value + from_bf16(o_.y0[static_cast<size_t>(row) * o_.n + column]);
      case kStore:
        break;
    }
    return value;
  }

  const Operands& o_;
  PrefillEpilogue epilogue_;
  bool has_bias_;
  int out_n_;
  DeviceBuffer<uint16_t> w_, x_, bias_;
  DeviceBuffer<int32_t> live_;
  DeviceBuffer<uint16_t> y_;
};

std::string text_of(const PrefillTuning& t) {
  return "128x" + std::to_string(t.tile_n) + " rows " + std::to_string(t.row_blocks) + " columns " +
         std::to_string(t.column_blocks) + " split " + std::to_string(t.split) + " per SM " +
         std::to_string(t.blocks_per_sm);
}

class PrefillLinearTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    Product probe(operands(1, 16, 64), kStore, false);
    PrefillLinearPlan plan;
    if (prefill_linear_plan(probe.problem(), 0, &plan) == cudaErrorNotSupported) {
      GTEST_SKIP() << "not a device of compute capability 9.0";
    }
  }

  void check_all_forms(const Operands& o, PrefillEpilogue epilogue, bool bias,
                       std::initializer_list<int> lives) {
    Product product(o, epilogue, bias);
    const std::vector<PrefillTuning> forms = all_prefill_tunings(product.problem());
    ASSERT_GE(forms.size(), 12U);
    for (const PrefillTuning& t : forms) {
      for (const int live : lives) {
        SCOPED_TRACE(text_of(t) + ", live " + std::to_string(live) + " of " + std::to_string(o.m));
        product.poison(live, o.m);
        product.run(t, live, launch_);
        if (!HasFailure()) product.expect_right(live);
        if (HasFailure()) return;
      }
    }
  }
};

// Rows and columns that end inside a tile; a ring that wraps.
TEST_F(PrefillLinearTest, StoresProductsInEveryForm) {
  const Operands& o = operands(300, 456, 1280);
  check_all_forms(o, kStore, false, {300, 129, 128, 1, 0});
  check_all_forms(o, kStore, true, {257});
}
TEST_F(PrefillLinearTest, MultipliesGateAndUpInEveryForm) {
  const Operands& o = operands(300, 912, 768);
  check_all_forms(o, kSiluMul, false, {300, 129, 128, 1, 0});
  check_all_forms(o, kSiluMul, true, {257});
}
TEST_F(PrefillLinearTest, AddsInEveryForm) {
  const Operands& o = operands(300, 456, 1280);
  check_all_forms(o, kAdd, false, {300, 129, 128, 1, 0});
  check_all_forms(o, kAdd, true, {257});
}

// One row of tiles: weights come before the live count is known.
TEST_F(PrefillLinearTest, OneRowOfTiles) {
  const Operands& o = operands(77, 1040, 1024);
  for (const auto epilogue : {kStore, kSiluMul, kAdd}) {
    check_all_forms(o, epilogue, false, {77, 64, 3, 0});
    if (HasFailure()) return;
  }
}

TEST_F(PrefillLinearTest, SmallestShape) {
  check_all_forms(operands(1, 8, 256), kStore, true, {1, 0});
  check_all_forms(operands(1, 16, 64), kSiluMul, true, {1});
  check_all_forms(operands(1, 8, 256), kAdd, true, {1});
}

// More tiles than multiprocessors: clusters go on to further tiles, in groups of rows.
TEST_F(PrefillLinearTest, WalksOverManyTiles) {
  const Operands& wide = operands(520, 9000, 64);
  check_all_forms(wide, kStore, false, {520, 300});
  check_all_forms(operands(520, 9008, 64), kSiluMul, true, {520, 385});
  check_all_forms(wide, kAdd, true, {520});
  // More than one group of rows.
  check_all_forms(operands(4500, 520, 64), kStore, false, {4500, 2049});
}

TEST_F(PrefillLinearTest, RowsThatHoldNanLeaveOthersAlone) {
  for (const auto epilogue : {kStore, kSiluMul, kAdd}) {
    const Operands& o = operands(300, 912, 768);
    Product clean(o, epilogue, false);
    Product dirty(o, epilogue, false);
    dirty.poison(100, 141);
    for (const PrefillTuning& t : all_prefill_tunings(clean.problem())) {
      SCOPED_TRACE(text_of(t));
      clean.run(t, 300, launch_);
      dirty.run(t, 300, launch_);
      if (HasFailure()) return;
      for (int r = 0; r < 300; ++r) {
        ASSERT_EQ(clean.same_row(dirty, r), r < 100 || r >= 141) << "row " << r;
      }
    }
  }
}

TEST_F(PrefillLinearTest, EveryRunGivesTheSameBits) {
  for (const auto epilogue : {kStore, kSiluMul, kAdd}) {
    const Operands& o = operands(300, 912, 768);
    Product first(o, epilogue, true);
    Product again(o, epilogue, true);
    for (const PrefillTuning& t : all_prefill_tunings(first.problem())) {
      SCOPED_TRACE(text_of(t));
      first.run(t, 300, launch_);
      for (int i = 0; i < 5; ++i) {
        again.run(t, 300, launch_);
        if (HasFailure()) return;
        ASSERT_TRUE(first.y == again.y);
      }
    }
  }
}

// Products that read what the one before wrote: starting early must not change a bit.
TEST_F(PrefillLinearTest, OverlapKeepsBits) {
  const int width = 1024;
  for (const int m : {100, 700}) {
    const Operands& o = operands(m, width, width);
    DeviceBuffer<uint16_t> w(o.w);
    DeviceBuffer<uint16_t> x(o.x);
    DeviceBuffer<uint16_t> hidden(o.y0);
    PrefillLinearProblem add;
    add.rows = {nullptr, m};
    add.n = width, add.k = width;
    add.w = w.get(), add.x = x.get(), add.y = hidden.get(), add.epilogue = kAdd;
    PrefillLinearProblem store = add;
    store.x = hidden.get(), store.y = x.get(), store.epilogue = kStore;
    const int variants =
        std::min(prefill_linear_num_variants(add), prefill_linear_num_variants(store));
    ASSERT_GE(variants, 3);
    for (int variant = 0; variant < variants; ++variant) {
      SCOPED_TRACE(prefill_linear_variant_name(add, variant));
      PrefillLinearPlan plans[2];
      ENCORE_GPU_OK(prefill_linear_plan(add, variant, &plans[0]));
      ENCORE_GPU_OK(prefill_linear_plan(store, variant, &plans[1]));
      std::vector<uint16_t> serial;
      for (int repeat = 0; repeat < 8; ++repeat) {
        x.put(o.x);
        hidden.put(o.y0);
        launch_.overlap = repeat > 0;
        for (int i = 0; i < 8; ++i) ENCORE_GPU_OK(prefill_linear_run(plans[i % 2], launch_));
        const std::vector<uint16_t> found = x.host();
        if (repeat == 0) serial = found;
        ASSERT_TRUE(found == serial) << "repeat " << repeat;
      }
    }
  }
}

TEST(PrefillLinearContractTest, RefusesWhatItDoesNotServe) {
  alignas(16) static unsigned char memory[32];
  PrefillLinearProblem good;
  good.rows.maximum = 8, good.n = 16, good.k = 64;
  good.w = memory, good.x = memory, good.y = memory;
  ASSERT_TRUE(prefill_linear_serves(good));
  PrefillLinearProblem q = good;
  q.k = 96;
  EXPECT_FALSE(prefill_linear_serves(q));
  q = good, q.n = 24, q.epilogue = kSiluMul;
  EXPECT_FALSE(prefill_linear_serves(q));
  q = good, q.rows.maximum = 0;
  EXPECT_FALSE(prefill_linear_serves(q));
  q = good, q.x = memory + 2;
  EXPECT_FALSE(prefill_linear_serves(q));
  PrefillLinearPlan plan;
  EXPECT_EQ(prefill_linear_plan(q, 0, &plan), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace encore::gpu
