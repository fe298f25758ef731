#include "kernels/gpu/dequantize.h"

#include <limits>

#include "gpu_test_support.h"
#include "kernels/cpu/quant.h"

namespace encore::gpu::testing {
namespace {
using kernels::block_bytes;
using kernels::block_elements;
using kernels::WeightType;

constexpr uint16_t kPoison = 0xCDCD;

class DequantizeTest : public GpuTest {
 protected:
  // Dequantises `bytes` on the device and compares with the CPU's values, rounded.
  void expect_same(WeightType type, const std::vector<uint8_t>& bytes, int64_t elements) {
    std::vector<float> expected(elements);
    kernels::dequantize_row(type, bytes.data(), elements, expected.data());
    DeviceBuffer<uint8_t> source(bytes);
    DeviceBuffer<uint16_t> destination(elements + 8);
    DequantizeArgs args;
    args.format = static_cast<WeightFormat>(type);
    args.source = source.get();
    args.elements = elements;
    args.destination = destination.get();
    ENCORE_GPU_OK(dequantize(args, launch_));
    sync();
    const std::vector<uint16_t> found = destination.host();
    for (int64_t i = 0; i < elements; ++i) {
      if (std::isnan(expected[i])) {
        ASSERT_TRUE(std::isnan(from_bf16(found[i]))) << "element " << i;
      } else {
        ASSERT_EQ(found[i], to_bf16(expected[i])) << "element " << i << ": " << expected[i];
      }
    }
    for (int64_t i = elements; i < elements + 8; ++i) ASSERT_EQ(found[i], kPoison);
  }
};

std::vector<uint8_t> random_bytes(size_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(engine());
  return bytes;
}

TEST_F(DequantizeTest, EveryFormatEqualsTheCpuBitForBit) {
  for (const WeightType type : {WeightType::kQ8_0, WeightType::kQ4_0, WeightType::kQ4_1,
                                WeightType::kQ4_K, WeightType::kQ5_K, WeightType::kQ6_K}) {
    // A kernel's block takes 8192 elements: one group, a few, one block and its neighbours, many.
    const int64_t whole = 8192 / block_elements(type);
    for (const int64_t groups :
         {int64_t{1}, int64_t{3}, whole - 1, whole, whole + 1, 5 * whole + 7}) {
      SCOPED_TRACE(::testing::Message()
                   << "format " << static_cast<int32_t>(type) << ", " << groups << " groups");
      // Any bits are valid, so scales of all kinds come up: subnormal, infinite, NaN.
      const size_t bytes = static_cast<size_t>(groups) * block_bytes(type);
      expect_same(type, random_bytes(bytes, static_cast<uint32_t>(groups)),
                  groups * block_elements(type));
    }
  }
}

TEST_F(DequantizeTest, EveryF16AndTheEdgesOfF32AreRounded) {
  std::vector<uint8_t> halves(2 << 16);
  for (uint32_t i = 0; i < 1U << 16; ++i) {
    halves[2 * i] = static_cast<uint8_t>(i);
    halves[2 * i + 1] = static_cast<uint8_t>(i >> 8);
  }
  expect_same(WeightType::kF16, halves, 1 << 16);

  std::vector<float> edges = {0.0F,
                              -0.0F,
                              1.00390625F,
                              1.01171875F,
                              1.00390637F,
                              -3.4e38F,
                              1e-45F,
                              0x1.FEp-126F,
                              0x1.FFp-127F,
                              std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN()};
  for (size_t count = 1; count <= edges.size(); ++count) {
    std::vector<uint8_t> bytes(count * sizeof(float));
    std::memcpy(bytes.data(), edges.data(), bytes.size());
    expect_same(WeightType::kF32, bytes, static_cast<int64_t>(count));
  }
  expect_same(WeightType::kF32, random_bytes(4 * 5003, 9), 5003);
  expect_same(WeightType::kF16, random_bytes(2 * 5003, 10), 5003);
  expect_same(WeightType::kBF16, random_bytes(2 * 5003, 11), 5003);
}

TEST_F(DequantizeTest, PartsOfAGroupAreRefused) {
  DequantizeArgs args;
  args.format = WeightFormat::kQ6_K;
  args.elements = 128;
  EXPECT_EQ(dequantize(args, launch_), gpuErrorInvalidValue);
  args.elements = 0;
  EXPECT_EQ(dequantize(args, launch_), gpuSuccess);
}

}  // namespace
}  // namespace encore::gpu::testing
