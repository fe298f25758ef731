#include "weight_upload.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fake_weights.h"
#include "gpu_test_support.h"
#include "kernels/cpu/quant.h"

namespace encore::gpu {
namespace {

using testing::DeviceBuffer;
using testing::FakeWeights;

constexpr int64_t kSmallPieces = int64_t{64} << 10;

// Memory that is counted, so that what an uploader leaves behind shows, and that can run out.
class CountedMemory {
 public:
  UploadMemory memory() {
    return {[this](int64_t bytes, const std::string& name) { return take(bytes, name, false); },
            [this](int64_t bytes, const std::string& name) { return take(bytes, name, true); }};
  }
  int live = 0;
  int allowed = 1000;

 private:
  class Block final : public lowering::DeviceMemoryBlock {
   public:
    Block(CountedMemory& owner, void* data, int64_t bytes, bool host)
        : owner_(owner), data_(data), bytes_(bytes), host_(host) {
      ++owner_.live;
    }
    ~Block() override {
      --owner_.live;
      static_cast<void>(host_ ? gpuFreeHost(data_) : gpuFree(data_));
    }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    std::byte* data() const override { return static_cast<std::byte*>(data_); }
    int64_t bytes() const override { return bytes_; }

   private:
    CountedMemory& owner_;
    void* data_;
    int64_t bytes_;
    bool host_;
  };

  Result<std::unique_ptr<lowering::DeviceMemoryBlock>> take(int64_t bytes, const std::string& name,
                                                            bool host) {
    if (allowed-- <= 0) return out_of_memory("no memory for " + name);
    void* data = nullptr;
    const auto size = static_cast<size_t>(bytes);
    const gpuError_t error = host ? gpuHostAlloc(&data, size, 0) : gpuMalloc(&data, size);
    if (error != gpuSuccess) return out_of_memory("no memory for " + name);
    return std::unique_ptr<lowering::DeviceMemoryBlock>(
        std::make_unique<Block>(*this, data, bytes, host));
  }
};

// The bits that a weight must have on the device.
std::vector<uint16_t> expected_bits(const FakeWeights& source, size_t index) {
  const WeightInfo& info = source.weights()[index];
  std::vector<float> values(static_cast<size_t>(weight_elements(info)));
  kernels::dequantize_row(static_cast<kernels::WeightType>(info.dtype), source.data(index).data(),
                          weight_elements(info), values.data());
  std::vector<uint16_t> bits;
  bits.reserve(values.size());
  for (const float value : values) bits.push_back(testing::to_bf16(value));
  return bits;
}

class WeightUploadTest : public testing::GpuTest {
 protected:
  Result<std::unique_ptr<WeightUploader>> create(const FakeWeights& source,
                                                 const UploadOptions& options) {
    slab_ = std::make_unique<DeviceBuffer<std::byte>>(size_t(WeightSlab::bytes(source)));
    return WeightUploader::create(source, slab_->get(), memory_.memory(), options);
  }

  // Bits at a device address within the slab.
  std::vector<uint16_t> bits_at(const void* address, size_t count) const {
    const std::vector<std::byte> bytes = slab_->host();
    const auto offset = size_t(static_cast<const std::byte*>(address) - slab_->get());
    std::vector<uint16_t> bits(count);
    std::memcpy(bits.data(), &bytes.at(offset), 2 * count);
    return bits;
  }

  void expect_right(const FakeWeights& source, const std::vector<size_t>& stack,
                    const void* address) const {
    std::vector<uint16_t> expected;
    for (const size_t index : stack) {
      const std::vector<uint16_t> part = expected_bits(source, index);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    const std::vector<uint16_t> found = bits_at(address, expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(found[i], expected[i]) << source.weights()[stack[0]].name << " element " << i;
    }
  }

  CountedMemory memory_;
  std::unique_ptr<DeviceBuffer<std::byte>> slab_;
};

constexpr std::array kFormats = {DType::kF32,  DType::kF16,  DType::kBF16,
                                 DType::kQ8_0, DType::kQ4_0, DType::kQ4_1,
                                 DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

// Every format, alone and stacked with another, in pieces that cut weights anywhere.
TEST_F(WeightUploadTest, EveryFormatArrivesAsBf16) {
  FakeWeights source;
  std::vector<std::vector<size_t>> stacks;
  for (const DType dtype : kFormats) {
    const std::string name(dtype_name(dtype));
    stacks.push_back({source.add(name + " vector", dtype, {1280})});
    const size_t first = source.add(name + " first", dtype, {300, 512});
    const size_t second = source.add(name + " second", DType::kF16, {77, 512});
    const size_t third = source.add(name + " third", dtype, {1, 512});
    stacks.push_back({first, second, third});
  }
  stacks.push_back({source.add("one element", DType::kBF16, {1})});
  stacks.push_back({source.add("odd", DType::kF32, {37, 3})});
  for (const int32_t threads : {1, 3, 8}) {
    for (const int64_t piece_bytes : {kSmallPieces, int64_t{100'001}, int64_t{16} << 20}) {
      auto uploader = create(source, {threads, piece_bytes});
      ASSERT_TRUE(uploader.ok()) << uploader.status().to_string();
      std::vector<const void*> addresses;
      for (const std::vector<size_t>& stack : stacks) {
        const Result<void*> address = (*uploader)->enqueue(stack);
        ASSERT_TRUE(address.ok()) << address.status().to_string();
        EXPECT_EQ(reinterpret_cast<uintptr_t>(*address) % 256, 0U);
        addresses.push_back(*address);
      }
      const Status finished = (*uploader)->finish();
      ASSERT_TRUE(finished.ok()) << finished.to_string();
      EXPECT_EQ(memory_.live, 0);
      for (size_t i = 0; i < stacks.size(); ++i) expect_right(source, stacks[i], addresses[i]);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(WeightUploadTest, WhatIsThereIsNotReadAgain) {
  FakeWeights source;
  const size_t embed = source.add("embed", DType::kBF16, {1000, 64});
  auto uploader = create(source, {2, kSmallPieces});
  ASSERT_TRUE(uploader.ok()) << uploader.status().to_string();
  const Result<void*> first = (*uploader)->enqueue({&embed, 1});
  const Result<void*> again = (*uploader)->enqueue({&embed, 1});
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_EQ(*first, *again);
  ASSERT_TRUE((*uploader)->finish().ok());
  EXPECT_EQ(source.reads(), 2);  // 128,000 bytes in pieces of 65,536
  expect_right(source, {embed}, *first);
}

TEST_F(WeightUploadTest, AFailedReadIsReportedWhereverItHappens) {
  FakeWeights source;
  std::vector<size_t> weights;
  for (int i = 0; i < 6; ++i) {
    weights.push_back(source.add("w", DType::kF16, {128, 512}));
  }
  // 131,072 bytes each: two pieces.
  for (int64_t failing = 0; failing < 12; ++failing) {
    for (const int32_t threads : {1, 4}) {
      source.fail_after(failing);
      auto uploader = create(source, {threads, kSmallPieces});
      ASSERT_TRUE(uploader.ok()) << uploader.status().to_string();
      for (const size_t weight : weights) {
        const Result<void*> address = (*uploader)->enqueue({&weight, 1});
        if (!address.ok()) {
          EXPECT_EQ(address.status().code(), StatusCode::kDataLoss);
        }
      }
      EXPECT_EQ((*uploader)->finish().code(), StatusCode::kDataLoss) << "read " << failing;
      EXPECT_EQ((*uploader)->finish().code(), StatusCode::kDataLoss);  // and stays so
      EXPECT_EQ((*uploader)->enqueue({weights.data(), 1}).status().code(), StatusCode::kDataLoss);
      EXPECT_EQ(memory_.live, 0);
    }
  }
  // The device is none the worse for it.
  source.fail_after(1000);
  auto uploader = create(source, {4, kSmallPieces});
  ASSERT_TRUE(uploader.ok());
  const Result<void*> address = (*uploader)->enqueue({weights.data(), 1});
  ASSERT_TRUE(address.ok());
  ASSERT_TRUE((*uploader)->finish().ok());
  expect_right(source, {weights[0]}, *address);
}

// An error must wake a caller that waits for room in the queue.
TEST_F(WeightUploadTest, AnErrorEndsAnEnqueueThatWaits) {
  FakeWeights source;
  const size_t large = source.add("large", DType::kBF16, {4096, 1024});  // 128 pieces
  source.fail_after(3);
  auto uploader = create(source, {2, kSmallPieces});
  ASSERT_TRUE(uploader.ok());
  EXPECT_EQ((*uploader)->enqueue({&large, 1}).status().code(), StatusCode::kDataLoss);
}

TEST_F(WeightUploadTest, DestructionMidwayFreesEverything) {
  FakeWeights source;
  const size_t large = source.add("large", DType::kF32, {4096, 1024});
  for (const int rounds : {0, 1}) {
    auto uploader = create(source, {4, kSmallPieces});
    ASSERT_TRUE(uploader.ok());
    EXPECT_EQ(memory_.live, 2);
    if (rounds == 1) {
      EXPECT_TRUE((*uploader)->enqueue({&large, 1}).ok());
    }
    std::move(uploader).value().reset();
    EXPECT_EQ(memory_.live, 0);
  }
}

TEST_F(WeightUploadTest, OutOfMemoryAtEachAllocationIsReported) {
  FakeWeights source;
  source.add("w", DType::kF32, {64, 64});
  for (int allowed = 0; allowed < 2; ++allowed) {
    memory_.allowed = allowed;
    EXPECT_EQ(create(source, {2, kSmallPieces}).status().code(), StatusCode::kOutOfMemory);
    EXPECT_EQ(memory_.live, 0);
  }
  memory_.allowed = 2;
  EXPECT_TRUE(create(source, {2, kSmallPieces}).ok());
}

TEST_F(WeightUploadTest, Bf16NeedsNoDeviceStaging) {
  FakeWeights source;
  source.add("w", DType::kBF16, {64, 64});
  memory_.allowed = 1;
  EXPECT_TRUE(create(source, {2, kSmallPieces}).ok());
}

TEST_F(WeightUploadTest, WrongUseIsRefused) {
  FakeWeights source;
  const size_t weight = source.add("w", DType::kBF16, {64, 64});
  EXPECT_EQ(create(source, {-1, kSmallPieces}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(create(source, {65, kSmallPieces}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(create(source, {1, kSmallPieces - 1}).status().code(), StatusCode::kInvalidArgument);
  auto uploader = create(source, {1, kSmallPieces});
  ASSERT_TRUE(uploader.ok());
  const size_t missing = 1;
  EXPECT_EQ((*uploader)->enqueue({&missing, 1}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE((*uploader)->enqueue({&weight, 1}).ok());
  EXPECT_TRUE((*uploader)->finish().ok());
  EXPECT_EQ((*uploader)->finish().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ((*uploader)->enqueue({&weight, 1}).status().code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace encore::gpu
