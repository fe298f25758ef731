#include "kernels/gpu/rows.h"

#include "gpu_test_support.h"

namespace encore::gpu::testing {
namespace {

constexpr uint16_t kPoison = 0xCDCD;

ENCORE_GPU_WARP_TEST(RowsTest);

TEST_P(RowsTest, EmbedResolvesIdsAndCopiesTheirRows) {
  constexpr int32_t kVocab = 50;
  constexpr int32_t kTokens = 9;
  const std::vector<int32_t> ids = {3, -1, 49, -3, 50, -2, 1 << 30, 0, 5};
  const std::vector<int32_t> previous = {7, -1, 11};
  const std::vector<int32_t> resolved = {3, 7, 49, 11, 50, -1, 1 << 30, 0, 5};
  for (const int32_t hidden : {8, 264, 4096}) {
    for (const int32_t live : {0, 1, 8, 9}) {
      SCOPED_TRACE(::testing::Message() << hidden << " columns, " << live << " live");
      const std::vector<uint16_t> table = random_bf16(static_cast<size_t>(kVocab) * hidden, 3);
      DeviceBuffer<uint16_t> device_table(table);
      DeviceBuffer<int32_t> device_live(std::vector<int32_t>{live});
      DeviceBuffer<int32_t> device_ids(ids);
      DeviceBuffer<int32_t> device_previous(previous);
      DeviceBuffer<int32_t> input_tokens(kTokens);
      DeviceBuffer<uint16_t> y(static_cast<size_t>(kTokens) * hidden);
      EmbedArgs args;
      args.tokens = {device_live.get(), kTokens};
      args.token_ids = device_ids.get();
      args.previous_tokens = device_previous.get();
      args.input_tokens = input_tokens.get();
      args.table = device_table.get();
      args.vocab_size = kVocab;
      args.hidden_size = hidden;
      args.y = y.get();
      ENCORE_GPU_OK(embed(args, launch_));
      sync();
      const std::vector<uint16_t> found = y.host();
      const std::vector<int32_t> found_ids = input_tokens.host();
      for (int32_t t = 0; t < kTokens; ++t) {
        const int32_t id = resolved[t];
        const bool known = id >= 0 && id < kVocab;
        EXPECT_EQ(found_ids[t], t < live ? id : static_cast<int32_t>(0xCDCDCDCD));
        for (int32_t i = 0; i < hidden; ++i) {
          const uint16_t copied = known ? table[static_cast<size_t>(id) * hidden + i] : uint16_t{0};
          ASSERT_EQ(found[t * hidden + i], t < live ? copied : kPoison) << t << " " << i;
        }
      }
    }
  }
}

TEST_P(RowsTest, GatherZeroesRowsPastTheLiveOnes) {
  constexpr int32_t kRows = 6;
  constexpr int32_t kSourceRows = 10;
  const std::vector<int32_t> index = {9, 0, 0, 4, 1 << 30, 1 << 30};  // the last are never read
  for (const int32_t columns : {8, 2304}) {
    for (const int32_t live : {0, 1, 4}) {
      const std::vector<uint16_t> x = random_bf16(static_cast<size_t>(kSourceRows) * columns, 4);
      DeviceBuffer<uint16_t> device_x(x);
      DeviceBuffer<int32_t> device_live(std::vector<int32_t>{live});
      DeviceBuffer<int32_t> device_index(index);
      DeviceBuffer<uint16_t> y(static_cast<size_t>(kRows) * columns);
      ENCORE_GPU_OK(gather_rows(
          {{device_live.get(), kRows}, device_index.get(), device_x.get(), y.get(), columns},
          launch_));
      sync();
      const std::vector<uint16_t> found = y.host();
      for (int32_t row = 0; row < kRows; ++row) {
        for (int32_t i = 0; i < columns; ++i) {
          const uint16_t expected =
              row < live ? x[static_cast<size_t>(index[row]) * columns + i] : uint16_t{0};
          ASSERT_EQ(found[row * columns + i], expected) << row << " " << i;
        }
      }
    }
  }
}

TEST_P(RowsTest, SiluMulFollowsDouble) {
  constexpr int32_t kRows = 4;
  for (const int32_t columns : {8, 40, 14336}) {
    for (const int32_t live : {0, 3, 4}) {
      std::vector<uint16_t> x = random_bf16(static_cast<size_t>(kRows) * 2 * columns, 5, 4.0F);
      x[0] = to_bf16(-90.0F);  // exp(90) overflows f32
      x[1] = to_bf16(1000.0F);
      x[2] = to_bf16(-0.0F);
      DeviceBuffer<uint16_t> device_x(x);
      DeviceBuffer<int32_t> device_live(std::vector<int32_t>{live});
      DeviceBuffer<uint16_t> y(static_cast<size_t>(kRows) * columns);
      ENCORE_GPU_OK(
          silu_mul({{device_live.get(), kRows}, device_x.get(), y.get(), columns}, launch_));
      sync();
      const std::vector<uint16_t> found = y.host();
      for (int32_t row = 0; row < kRows; ++row) {
        for (int32_t i = 0; i < columns; ++i) {
          const double gate = from_bf16(x[static_cast<size_t>(row) * 2 * columns + i]);
          const double up = from_bf16(x[(static_cast<size_t>(row) * 2 + 1) * columns + i]);
          const double expected = gate / (1.0 + std::exp(-gate)) * up;
          if (row >= live) {
            ASSERT_EQ(found[row * columns + i], kPoison);
          } else {  // one bf16 rounding and the fast exponential; below 1e-30 it may be 0
            ASSERT_NEAR(from_bf16(found[row * columns + i]), expected,
                        std::abs(expected) * 0.00395 + 1e-30);
          }
        }
      }
    }
  }
}

TEST_P(RowsTest, BiasIsAddedInF32) {
  constexpr int32_t kRows = 3;
  for (const int32_t columns : {8, 6144}) {
    for (const int32_t live : {0, 2, 3}) {
      const std::vector<uint16_t> x = random_bf16(static_cast<size_t>(kRows) * columns, 6);
      const std::vector<uint16_t> bias = random_bf16(columns, 7);
      DeviceBuffer<uint16_t> device_x(x);
      DeviceBuffer<uint16_t> device_bias(bias);
      DeviceBuffer<int32_t> device_live(std::vector<int32_t>{live});
      ENCORE_GPU_OK(add_bias(
          {{device_live.get(), kRows}, device_x.get(), device_bias.get(), columns}, launch_));
      sync();
      const std::vector<uint16_t> found = device_x.host();
      for (int32_t row = 0; row < kRows; ++row) {
        for (int32_t i = 0; i < columns; ++i) {
          const uint16_t old = x[static_cast<size_t>(row) * columns + i];
          const uint16_t sum = to_bf16(from_bf16(old) + from_bf16(bias[i]));
          ASSERT_EQ(found[row * columns + i], row < live ? sum : old);
        }
      }
    }
  }
}

TEST_P(RowsTest, ColumnsThatAreNoMultipleOfEightAreRefused) {
  AddBiasArgs args;
  args.rows.maximum = 1;
  for (const int32_t columns : {0, 4, 12}) {
    args.columns = columns;
    EXPECT_EQ(add_bias(args, launch_), gpuErrorInvalidValue);
  }
}

}  // namespace
}  // namespace encore::gpu::testing
