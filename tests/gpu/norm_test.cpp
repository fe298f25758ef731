#include "kernels/gpu/norm.h"

#include "gpu_test_support.h"

namespace encore::gpu::testing {
namespace {

constexpr uint16_t kPoison = 0xCDCD;

ENCORE_GPU_WARP_TEST(NormTest);

std::vector<double> expected_row(const uint16_t* x, const uint16_t* weight, int32_t columns,
                                 double eps) {
  double sum = 0.0;
  for (int32_t i = 0; i < columns; ++i)
    sum += static_cast<double>(from_bf16(x[i])) * from_bf16(x[i]);
  std::vector<double> y(columns);
  for (int32_t i = 0; i < columns; ++i) {
    y[i] = from_bf16(x[i]) / std::sqrt(sum / columns + eps) * from_bf16(weight[i]);
  }
  return y;
}

TEST_P(NormTest, RowsAreNormalisedAndOthersUntouched) {
  constexpr int32_t kRows = 5;
  constexpr float kEps = 0.5F;  // large enough to show
  for (const int32_t columns : {8, 72, 576, 4096, 5120, 8200, 16384}) {
    for (const int32_t live : {0, 1, 3, 5}) {
      SCOPED_TRACE(::testing::Message() << columns << " columns, " << live << " live rows");
      const int64_t x_stride = columns + 16;
      const int64_t y_stride = columns + 8;
      const std::vector<uint16_t> x = random_bf16(kRows * x_stride, columns, 3.0F);
      const std::vector<uint16_t> weight = random_bf16(columns, 7);
      DeviceBuffer<uint16_t> device_x(x);
      DeviceBuffer<uint16_t> device_weight(weight);
      DeviceBuffer<uint16_t> y(kRows * y_stride);
      DeviceBuffer<int32_t> device_live(std::vector<int32_t>{live});
      RmsNormArgs args;
      args.rows = {device_live.get(), kRows};
      args.x = device_x.get();
      args.x_stride = x_stride;
      args.weight = device_weight.get();
      args.y = y.get();
      args.y_stride = y_stride;
      args.hidden_size = columns;
      args.eps = kEps;
      ENCORE_GPU_OK(rms_norm(args, launch_));
      sync();
      const std::vector<uint16_t> found = y.host();
      for (int32_t row = 0; row < kRows; ++row) {
        const auto expected = expected_row(&x[row * x_stride], weight.data(), columns, kEps);
        for (int32_t i = 0; i < y_stride; ++i) {
          const uint16_t bits = found[row * y_stride + i];
          if (row >= live || i >= columns) {
            ASSERT_EQ(bits, kPoison);
          } else {  // one bf16 rounding, and f32 sums
            ASSERT_NEAR(from_bf16(bits), expected[i], std::abs(expected[i]) * 0.00395 + 1e-30);
          }
        }
      }
    }
  }
}

TEST_P(NormTest, InPlaceAndAnywhereTheBitsAreTheSame) {
  constexpr int32_t kRows = 4;
  constexpr int32_t kColumns = 1024;
  std::vector<uint16_t> x = random_bf16(kRows * kColumns, 1);
  std::copy_n(x.begin(), kColumns, x.begin() + 3 * kColumns);  // rows 0 and 3 are equal
  DeviceBuffer<uint16_t> device_x(x);
  DeviceBuffer<uint16_t> y(x.size());
  DeviceBuffer<uint16_t> weight(random_bf16(kColumns, 2));
  DeviceBuffer<int32_t> live(std::vector<int32_t>{kRows});
  RmsNormArgs args{{live.get(), kRows},
                   device_x.get(),
                   kColumns,
                   weight.get(),
                   y.get(),
                   kColumns,
                   kColumns,
                   1e-6F};
  ENCORE_GPU_OK(rms_norm(args, launch_));
  args.y = device_x.get();
  ENCORE_GPU_OK(rms_norm(args, launch_));
  sync();
  const std::vector<uint16_t> found = y.host();
  EXPECT_EQ(found, device_x.host());
  EXPECT_TRUE(std::equal(found.begin(), found.begin() + kColumns, found.begin() + 3 * kColumns));
}

// Rows in their hundreds are spread over threads in another way.
TEST_P(NormTest, AmongManyRowsTheBitsAreTheSame) {
  constexpr int32_t kMany = 520;
  constexpr int32_t kLive = 517;
  for (const int32_t columns : {8, 72, 576, 4096, 4104, 16384}) {
    SCOPED_TRACE(::testing::Message() << columns << " columns");
    const std::vector<uint16_t> x = random_bf16(int64_t{kMany} * columns, columns, 3.0F);
    DeviceBuffer<uint16_t> device_x(x);
    DeviceBuffer<uint16_t> weight(random_bf16(columns, 7));
    DeviceBuffer<uint16_t> many(x.size());
    DeviceBuffer<uint16_t> few(x.size());
    DeviceBuffer<int32_t> live(std::vector<int32_t>{kLive});
    DeviceBuffer<int32_t> all(std::vector<int32_t>{kMany / 8});
    RmsNormArgs args{{live.get(), kMany}, device_x.get(), columns, weight.get(),
                     many.get(),          columns,        columns, 1e-6F};
    ENCORE_GPU_OK(rms_norm(args, launch_));
    args.rows = {all.get(), kMany / 8};
    for (int32_t first = 0; first < kMany; first += kMany / 8) {
      args.x = device_x.get() + int64_t{first} * columns;
      args.y = few.get() + int64_t{first} * columns;
      ENCORE_GPU_OK(rms_norm(args, launch_));
    }
    sync();
    std::vector<uint16_t> expected = few.host();
    std::fill(expected.begin() + int64_t{kLive} * columns, expected.end(), kPoison);
    EXPECT_EQ(many.host(), expected);
  }
}

TEST_P(NormTest, BadSizesAreRefused) {
  RmsNormArgs args;
  args.rows.maximum = 1;
  for (const int32_t columns : {0, 12, 16392}) {
    args.hidden_size = columns;
    EXPECT_EQ(rms_norm(args, launch_), gpuErrorInvalidValue);
  }
}

TEST_P(NormTest, AWidthThatNoWarpHasIsRefused) {
  RmsNormArgs args;
  args.rows.maximum = 1;
  args.hidden_size = 8;
  launch_.lanes = 48;
  EXPECT_EQ(rms_norm(args, launch_), gpuErrorInvalidValue);
}

}  // namespace
}  // namespace encore::gpu::testing
