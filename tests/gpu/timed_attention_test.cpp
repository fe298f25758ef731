// The attention of timed layers is that of steps: right numbers, and all rows of them. On a GPU,
// and on the stand-in for AMD's run-time.
#include "timed_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "device_under_test.h"
#include "gpu_test_support.h"

namespace encore::gpu::testing {
namespace {

constexpr int32_t kHeads = 4;
constexpr int32_t kKvHeads = 2;
constexpr int32_t kHeadDim = 64;
constexpr int32_t kRow = (kHeads + 2 * kKvHeads) * kHeadDim;  // of qkv
constexpr int32_t kMaxRows = 8;
constexpr size_t kLayers = 2;

DeviceTraits device_here() {
#if defined(ENCORE_GPU_CUDA)
  return {compute_capability(), 32, MatrixUnit::kMma, 132};
#else
  return {0, 64, MatrixUnit::kMfma, 4};
#endif
}

ModelSpec small_spec(bool norms) {
  ModelSpec spec;
  spec.num_heads = kHeads;
  spec.num_kv_heads = kKvHeads;
  spec.head_dim = kHeadDim;
  spec.rope.inv_freq.assign(kHeadDim / 2, 0.5F);
  spec.qk_norm = norms;
  return spec;
}

class TimedAttentionTest : public GpuTest {
 protected:
  // Runs both layers; gives y of the second.
  std::vector<uint16_t> run(TimedAttention& attention, const std::vector<uint16_t>& qkv,
                            int32_t rows) {
    DeviceBuffer<uint16_t> device_qkv(qkv);
    DeviceBuffer<uint16_t> y(size_t(rows) * kHeads * kHeadDim);
    for (size_t layer = 0; layer < kLayers; ++layer) {
      device_qkv.put(qkv);
      y.fill(0xFF);  // NaN
      const Status status = attention.run(layer, device_qkv.get(), y.get());
      EXPECT_TRUE(status.ok()) << status.message();
    }
    sync();
    return y.host();
  }

  MemoryAccount account_;
};

TEST_F(TimedAttentionTest, FirstTokenOfAPromptSeesItselfAlone) {
  auto attention = TimedAttention::create(small_spec(false), device_here(), kMaxRows, kLayers,
                                          account_, stream_);
  ASSERT_TRUE(attention.ok()) << attention.status().message();
  for (const int32_t rows : {2, 7}) {
    ASSERT_TRUE((*attention)->plan(rows, false).ok());
    const std::vector<uint16_t> qkv = random_bf16(size_t(rows) * kRow, 41);
    const std::vector<uint16_t> y = run(**attention, qkv, rows);
    for (int32_t i = 0; i < kHeads * kHeadDim; ++i) {
      const int32_t kv_head = i / kHeadDim / (kHeads / kKvHeads);
      ASSERT_EQ(y[size_t(i)], qkv[size_t((kHeads + kKvHeads + kv_head) * kHeadDim + i % kHeadDim)])
          << "column " << i;
    }
    EXPECT_TRUE(std::ranges::all_of(y, [](uint16_t v) { return std::isfinite(from_bf16(v)); }));
  }
}

TEST_F(TimedAttentionTest, EveryRequestOfADecodeStepGetsItsRow) {
  for (const bool norms : {false, true}) {
    auto attention = TimedAttention::create(small_spec(norms), device_here(), kMaxRows, kLayers,
                                            account_, stream_);
    ASSERT_TRUE(attention.ok()) << attention.status().message();
    for (const int32_t rows : {1, 5, kMaxRows}) {
      ASSERT_TRUE((*attention)->plan(rows, true).ok());
      const std::vector<uint16_t> y = run(**attention, random_bf16(size_t(rows) * kRow, 42), rows);
      EXPECT_TRUE(std::ranges::all_of(y, [](uint16_t v) { return std::isfinite(from_bf16(v)); }))
          << rows << " rows";
    }
  }
  EXPECT_EQ(account_.device_bytes, 0);
}

TEST_F(TimedAttentionTest, WithoutMemoryNothingIsLeft) {
  for (int64_t failing = 1; failing <= 5; ++failing) {
    MemoryAccount account;
    account.failing_allocation = failing;
    const auto attention = TimedAttention::create(small_spec(false), device_here(), kMaxRows,
                                                  kLayers, account, stream_);
    ASSERT_FALSE(attention.ok()) << "allocation " << failing;
    EXPECT_EQ(attention.status().code(), StatusCode::kOutOfMemory);
    EXPECT_EQ(account.device_bytes, 0);
  }
}

}  // namespace
}  // namespace encore::gpu::testing
