// Matrix products of our own, on every matrix unit: against float64, and the same bits for a row
// whatever stands beside it.
#include "kernels/gpu/linear.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <numeric>
#include <ostream>
#include <vector>

#include "device_under_test.h"
#include "gpu_test_support.h"

namespace encore::gpu::testing {
namespace {

// One product with random operands. Rows past the last of x and w hold NaN, and y is longer than
// the product by a row of other bytes.
class Product {
 public:
  explicit Product(const LinearShape& shape, bool with_bias = false, uint32_t seed = 1)
      : shape_(shape),
        with_bias_(with_bias),
        x_(random_bf16(count(shape.m, shape.k), seed)),
        w_(random_bf16(count(shape.n, shape.k), seed + 1)),
        bias_(random_bf16(count(1, shape.n), seed + 2, 10.0F)),
        y_before_(count(shape.m + 1, shape.n)) {
    std::mt19937 engine(seed + 3);
    std::normal_distribution<float> normal(0.0F, 10.0F);
    for (float& value : y_before_) value = from_bf16(to_bf16(normal(engine)));
    put_rows(&x_device_, x_);
    put_rows(&w_device_, w_);
    bias_device_.put(bias_);
    std::vector<std::byte> bytes(y_device_.size());
    for (size_t i = 0; i < y_before_.size(); ++i) {
      const auto wide = std::bit_cast<uint32_t>(y_before_[i]);
      const uint32_t bits = is_f32() ? wide : wide >> 16;
      std::memcpy(bytes.data() + i * element_size(), &bits, element_size());
    }
    y_device_.put(bytes);
  }

  LinearOperands operands() {
    return {x_device_.get(), w_device_.get(), with_bias_ ? bias_device_.get() : nullptr,
            y_device_.get()};
  }
  // x's row `row` becomes that row of another product with the same k.
  void set_row(int row, const Product& from, int from_row) {
    const auto k = static_cast<size_t>(shape_.k);
    std::copy_n(from.x_.begin() + static_cast<ptrdiff_t>(from_row * k), k,
                x_.begin() + static_cast<ptrdiff_t>(row * k));
    put_rows(&x_device_, x_);
  }
  LaunchError run(const DeviceTraits& device, Launch launch) {
    launch.lanes = device.lanes;
    return linear(shape_, operands(), device, launch);
  }

  std::vector<float> found() const {
    const std::vector<std::byte> bytes = y_device_.host();
    std::vector<float> values(bytes.size() / element_size());
    for (size_t i = 0; i < values.size(); ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, bytes.data() + i * element_size(), element_size());
      values[i] = std::bit_cast<float>(is_f32() ? bits : bits << 16);
    }
    return values;
  }

  // Each element is within one rounding to y's type, and f32 sums, of its value.
  void check() const {
    const std::vector<float> y = found();
    const double rounding = is_f32() ? 0x1p-23 : 0x1p-8;
    for (int row = 0; row < shape_.m; ++row) {
      for (int column = 0; column < shape_.n; ++column) {
        const auto at = count(row, shape_.n) + static_cast<size_t>(column);
        double expected = with_bias_ ? from_bf16(bias_[static_cast<size_t>(column)]) : 0.0;
        if (shape_.accumulate) expected += y_before_[at];
        double size = std::abs(expected);
        for (int i = 0; i < shape_.k; ++i) {
          const double term = double{from_bf16(x_[count(row, shape_.k) + static_cast<size_t>(i)])} *
                              from_bf16(w_[count(column, shape_.k) + static_cast<size_t>(i)]);
          expected += term;
          size += std::abs(term);
        }
        ASSERT_NEAR(y[at], expected, rounding * std::abs(expected) + 2e-6 * size)
            << "row " << row << ", column " << column;
      }
    }
    for (size_t at = count(shape_.m, shape_.n); at < y.size(); ++at)
      ASSERT_EQ(y[at], y_before_[at]) << "y is touched past its last row, at element " << at;
  }

 private:
  static constexpr int kNaNRows = 3;
  static size_t count(int rows, int columns) {
    return static_cast<size_t>(rows) * static_cast<size_t>(columns);
  }
  bool is_f32() const { return shape_.output == Element::kF32; }
  size_t element_size() const { return is_f32() ? 4 : 2; }
  void put_rows(DeviceBuffer<uint16_t>* to, std::vector<uint16_t> rows) const {
    rows.resize(to->size(), 0x7fff);
    to->put(rows);
  }

  LinearShape shape_;
  bool with_bias_;
  std::vector<uint16_t> x_, w_, bias_;
  std::vector<float> y_before_;
  DeviceBuffer<uint16_t> x_device_{count(shape_.m + kNaNRows, shape_.k)};
  DeviceBuffer<uint16_t> w_device_{count(shape_.n + kNaNRows, shape_.k)};
  DeviceBuffer<uint16_t> bias_device_{count(1, shape_.n)};
  DeviceBuffer<std::byte> y_device_{count(shape_.m + 1, shape_.n) * element_size()};
};

class LinearTest : public GpuTest, public ::testing::WithParamInterface<DeviceTraits> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped() && !is_device_here(GetParam())) GTEST_SKIP() << "not this device";
  }
  void check(const LinearShape& shape, bool with_bias = false) {
    SCOPED_TRACE(::testing::Message() << shape.m << " x " << shape.n << " x " << shape.k);
    Product product(shape, with_bias);
    ENCORE_GPU_OK(product.run(GetParam(), launch_));
    product.check();
  }
};

// Around what a lane, a step and a chunk of k take; columns that no thread block is full of.
TEST_P(LinearTest, FewRows) {
  for (const int m : {1, 2, 3, 4, 5, 7, 8}) {
    check({m, 24, 8});
    check({m, 8, 520});
    check({m, 72, 1032});
    if (HasFatalFailure()) return;
  }
  check({2, 8, 2048});
  check({1, 16, 5000});
}

TEST_P(LinearTest, ManyRows) {
  for (const LinearShape& shape : {LinearShape{9, 8, 8},
                                   {16, 136, 40},
                                   {65, 64, 32},
                                   {70, 56, 72},
                                   {64, 64, 264},
                                   {130, 136, 24}}) {
    check(shape);
    if (HasFatalFailure()) return;
  }
}

TEST_P(LinearTest, LargeBlocks) {
  DeviceTraits device = GetParam();
  device.num_processors = 1;
  for (const LinearShape& shape : {LinearShape{128, 128, 96}, {140, 136, 40}, {33, 264, 72}}) {
    Product product(shape);
    ENCORE_GPU_OK(product.run(device, launch_));
    product.check();
    if (HasFatalFailure()) return;
  }
}

// A vocabulary has any size.
TEST_P(LinearTest, F32OutputOfAnyWidth) {
  for (const int m : {1, 3, 8, 9, 40, 130}) {
    check({m, 260, 72, Element::kF32});
    check({m, 33, 64, Element::kF32});
    check({m, 1, 64, Element::kF32, true});
    if (HasFatalFailure()) return;
  }
}

TEST_P(LinearTest, BiasAndWhatYHeld) {
  for (const int m : {3, 40}) {
    for (const bool accumulate : {false, true}) {
      check({m, 72, 136, Element::kBF16, accumulate}, true);
      check({m, 72, 136, Element::kBF16, accumulate}, false);
      check({m, 72, 136, Element::kF32, accumulate}, false);
      if (HasFatalFailure()) return;
    }
  }
}

// A row's result has the same bits alone, among others at another place, and in another block.
TEST_P(LinearTest, RowsDoNotDependOnEachOther) {
  constexpr int kN = 136;
  constexpr int kK = 584;
  struct Place {
    int m, row, num_processors;
  };
  for (const std::vector<Place>& same :
       {std::vector<Place>{{1, 0, 1}, {3, 2, 1000}, {8, 5, 1}},
        std::vector<Place>{{9, 0, 1000}, {40, 39, 1000}, {150, 140, 1}}}) {
    const Product source({1, kN, kK, Element::kF32}, false, 50);
    std::vector<float> first;
    for (const Place& place : same) {
      Product product({place.m, kN, kK, Element::kF32});
      product.set_row(place.row, source, 0);
      DeviceTraits device = GetParam();
      device.num_processors = place.num_processors;
      ENCORE_GPU_OK(product.run(device, launch_));
      const std::vector<float> y = product.found();
      const auto begin = y.begin() + place.row * kN;
      const std::vector<float> row(begin, begin + kN);
      if (first.empty()) first = row;
      for (int i = 0; i < kN; ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(row[i]), std::bit_cast<uint32_t>(first[i]))
            << "row " << place.row << " of " << place.m << ", column " << i;
      }
    }
  }
}

TEST_P(LinearTest, RefusesWhatItDoesNotServe) {
  Product product({9, 16, 16});
  Launch launch = launch_;
  launch.lanes = GetParam().lanes;
  const auto error = [&](const LinearShape& shape, const LinearOperands& operands) {
    return linear(shape, operands, GetParam(), launch);
  };
  const LinearOperands good = product.operands();
  EXPECT_EQ(error({9, 16, 16}, good), gpuSuccess);
  for (const LinearShape& shape : {LinearShape{0, 16, 16},
                                   {9, 0, 16},
                                   {9, 16, 0},
                                   {9, 12, 16},
                                   {9, 16, 12},
                                   {9, 16, 16, Element::kF16}})
    EXPECT_EQ(error(shape, good), gpuErrorInvalidValue) << shape.m << shape.n << shape.k;
  LinearOperands bad = good;
  bad.x = static_cast<const uint16_t*>(good.x) + 4;
  EXPECT_EQ(error({9, 16, 16}, bad), gpuErrorInvalidValue);
  bad = good;
  bad.y = nullptr;
  EXPECT_EQ(error({9, 16, 16}, bad), gpuErrorInvalidValue);
  bad = good;
  bad.bias = good.w;
  EXPECT_EQ(error({9, 16, 16, Element::kF32}, bad), gpuErrorInvalidValue);
  DeviceTraits other = GetParam();
  other.matrix_unit = MatrixUnit::kMfma;
  launch.lanes = 32;  // which has no MFMA
  EXPECT_EQ(linear({9, 16, 16}, good, other, launch), gpuErrorInvalidValue);
}

INSTANTIATE_TEST_SUITE_P(Devices, LinearTest, ::testing::ValuesIn(all_devices()), device_name);

}  // namespace
}  // namespace encore::gpu::testing
