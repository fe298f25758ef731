// Which matrix products the backend takes, and hipBLASLt's algorithms: on the stand-ins for HIP,
// rocBLAS and hipBLASLt (standin/libhipblaslt.cpp says what the latter knows).
#include <gmock/gmock.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control.h"
#include "encore/sdk/host.h"
#include "gpu_test_support.h"
#include "rocm_blas.h"
#include "temp_folder.h"

namespace encore::rocm {
namespace {

using gpu::Element;
using gpu::ProductOperands;
using gpu::ProductShape;
using gpu::testing::DeviceBuffer;
using gpu::testing::from_bf16;
using gpu::testing::TempFolder;
using gpu::testing::to_bf16;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr gpu::DeviceTraits kMi210 = {0, 64, gpu::MatrixUnit::kMfma, 4};

// hipblasStatus_t
constexpr const char* kInternalError = "6";
constexpr const char* kNotSupported = "7";

// Operands of one product: small whole numbers and halves, so that results are exact in f32 and
// f64 alike.
class Product {
 public:
  explicit Product(const ProductShape& shape)
      : shape_(shape),
        x_host_(values(size_t(shape.m) * shape.k, 3)),
        w_host_(values(size_t(shape.n) * shape.k, 5)),
        bias_host_(values(size_t(shape.n), 7)),
        x_(x_host_),
        w_(w_host_),
        bias_(bias_host_),
        y_(size_t(shape.m) * shape.n * gpu::element_bytes(shape.output)) {
    reset();
  }

  // Zeros if old values count, poison if not.
  void reset() { y_.fill(shape_.accumulate ? 0 : 0xFF); }
  const ProductShape& shape() const { return shape_; }
  ProductOperands operands() {
    return {x_.get(), w_.get(), shape_.bias ? bias_.get() : nullptr, y_.get()};
  }
  std::vector<std::byte> raw() const { return y_.host(); }

  std::vector<double> found() const {
    const std::vector<std::byte> bytes = y_.host();
    std::vector<double> result(size_t(shape_.m) * shape_.n);
    for (size_t i = 0; i < result.size(); ++i) {
      float f32 = 0.0F;
      uint16_t bf16 = 0;
      if (shape_.output == Element::kF32) std::memcpy(&f32, &bytes[4 * i], 4);
      if (shape_.output == Element::kBF16) std::memcpy(&bf16, &bytes[2 * i], 2);
      result[i] = shape_.output == Element::kF32 ? f32 : from_bf16(bf16);
    }
    return result;
  }
  // After `times` runs since reset(); rounded to bf16 after each, where that is the output.
  std::vector<double> expected(int times = 1) const {
    std::vector<double> result;
    for (int32_t i = 0; i < shape_.m; ++i) {
      for (int32_t j = 0; j < shape_.n; ++j) {
        double sum = shape_.bias ? from_bf16(bias_host_[size_t(j)]) : 0.0;
        for (int32_t c = 0; c < shape_.k; ++c) {
          sum += double(from_bf16(x_host_[size_t(i) * shape_.k + c])) *
                 from_bf16(w_host_[size_t(j) * shape_.k + c]);
        }
        double total = 0.0;
        for (int run = 0; run < (shape_.accumulate ? times : 1); ++run) {
          total += sum;
          if (shape_.output == Element::kBF16) total = from_bf16(to_bf16(float(total)));
        }
        result.push_back(total);
      }
    }
    return result;
  }

 private:
  static std::vector<uint16_t> values(size_t count, uint32_t seed) {
    std::vector<uint16_t> result(count);
    for (size_t i = 0; i < count; ++i) {
      result[i] = to_bf16(float((i * 2654435761U + seed * 97) % 17) / 2.0F - 4.0F);
    }
    return result;
  }

  ProductShape shape_;
  std::vector<uint16_t> x_host_, w_host_, bias_host_;
  DeviceBuffer<uint16_t> x_, w_, bias_;
  DeviceBuffer<std::byte> y_;
};

class RocmBlasTest : public gpu::testing::GpuTest {
 protected:
  void SetUp() override {
    encore_standin_fail("");
    GpuTest::SetUp();
    sdk::host_info.log = [](void* context, int32_t, const char* text, size_t length) {
      static_cast<std::vector<std::string>*>(context)->emplace_back(text, length);
    };
    sdk::host_info.log_context = &log_;
  }
  void TearDown() override {
    sdk::host_info = {};
    blas_.reset();
    workspace_.reset();
    GpuTest::TearDown();
    EXPECT_EQ(encore_standin_misuses(), 0);
  }

  Status make(BlasChoice choice, const std::filesystem::path& folder = {}) {
    Result<std::unique_ptr<gpu::Blas>> made = make_rocm_blas(choice, kMi210, folder, counts_);
    if (!made.ok()) return made.status();
    blas_ = std::move(made).value();
    workspace_.emplace(size_t(blas_->workspace_bytes()) + 256);
    blas_->set_workspace(workspace_->get());
    return {};
  }
  Status tune(Product& product) {
    return blas_->tune(product.shape(), product.operands(), {}, stream_);
  }
  Status multiply(Product& product) {
    return blas_->multiply(product.shape(), product.operands(), stream_);
  }
  void expect_right(Product& product) {
    product.reset();
    const Status status = multiply(product);
    ASSERT_TRUE(status.ok()) << status.to_string();
    sync();
    EXPECT_EQ(product.found(), product.expected());
  }
  // How often each of the stand-in's algorithms has run since failures were planned last.
  static std::array<int64_t, 4> runs() {
    std::array<int64_t, 4> result{};
    for (size_t i = 0; i < result.size(); ++i) {
      result[i] =
          encore_standin_calls(("hipblasLtMatmul algorithm " + std::to_string(i + 1)).c_str());
    }
    return result;
  }

  std::vector<std::string> log_;
  BlasCounts counts_;
  std::optional<DeviceBuffer<std::byte>> workspace_;
  std::unique_ptr<gpu::Blas> blas_;
};

// Large enough that the slow algorithm shows on a busy machine.
constexpr ProductShape kTimed = {8, 64, 256};
// For which hipBLASLt has nothing.
constexpr ProductShape kShort = {4, 16, 16};

TEST_F(RocmBlasTest, AutoTakesHipblaslt) {
  ASSERT_TRUE(make(BlasChoice::kAuto).ok());
  EXPECT_EQ(counts_.hipblaslt, 1);
  EXPECT_EQ(counts_.rocblas, 0);
  EXPECT_EQ(counts_.own, 0);
  EXPECT_THAT(log_, Contains("matrix products by hipBLASLt: blas_hipblaslt"));
}

// Before tuning the library's first choice serves, after it what timing chose.
TEST_F(RocmBlasTest, ProductsEqualDoublePrecision) {
  ASSERT_TRUE(make(BlasChoice::kHipblaslt).ok());
  for (const int32_t m : {1, 5}) {
    for (const bool accumulate : {false, true}) {
      for (const auto& [output, bias] :
           {std::pair(Element::kBF16, false), std::pair(Element::kBF16, true),
            std::pair(Element::kF32, false)}) {
        Product product({m, 24, 64, output, accumulate, bias});
        expect_right(product);
        ASSERT_TRUE(tune(product).ok());
        expect_right(product);
        ASSERT_TRUE(multiply(product).ok());
        sync();
        EXPECT_EQ(product.found(), product.expected(2));
      }
    }
  }
}

TEST_F(RocmBlasTest, TheFastestThatGivesTheSameBitsIsTaken) {
  ASSERT_TRUE(make(BlasChoice::kHipblaslt).ok());
  Product product(kTimed);
  ASSERT_TRUE(tune(product).ok());
  encore_standin_fail("");
  for (int run = 0; run < 3; ++run) expect_right(product);
  EXPECT_EQ(runs(), (std::array<int64_t, 4>{0, 0, 0, 3}));
}

TEST_F(RocmBlasTest, AnAlgorithmWhoseBitsDifferIsNamedInTheLog) {
  ASSERT_TRUE(make(BlasChoice::kHipblaslt).ok());
  // The other fast one refuses, both times that algorithms are timed: this one is the fastest.
  encore_standin_fail("hipblasLtMatmul algorithm 4:1:7,hipblasLtMatmul algorithm 4:2:7");
  Product product(kTimed);
  ASSERT_TRUE(tune(product).ok());
  EXPECT_THAT(log_, Contains(HasSubstr("blas_bits_differ: an algorithm for product m=8 n=64")));
  encore_standin_fail("");
  expect_right(product);
  EXPECT_EQ(runs(), (std::array<int64_t, 4>{1, 0, 0, 0}));
}

TEST_F(RocmBlasTest, CapturedProductsReplayToTheSameBits) {
  ASSERT_TRUE(make(BlasChoice::kAuto).ok());
  Product plain({4, 32, 64});
  Product biased({4, 32, 64, Element::kBF16, false, true});
  ASSERT_TRUE(tune(plain).ok());
  ENCORE_GPU_OK(gpuStreamBeginCapture(stream_, gpuStreamCaptureModeThreadLocal));
  ASSERT_TRUE(multiply(plain).ok());
  ASSERT_TRUE(multiply(biased).ok());
  EXPECT_EQ(tune(plain).code(), StatusCode::kFailedPrecondition);
  gpuGraph_t graph = nullptr;
  gpuGraphExec_t executable = nullptr;
  ENCORE_GPU_OK(gpuStreamEndCapture(stream_, &graph));
  ENCORE_GPU_OK(gpuGraphInstantiate(&executable, graph));
  encore_standin_fail("");
  for (int round = 0; round < 3; ++round) {
    plain.reset();
    biased.reset();
    ENCORE_GPU_OK(gpuGraphLaunch(executable, stream_));
    sync();
    EXPECT_EQ(plain.found(), plain.expected());
    EXPECT_EQ(biased.found(), biased.expected());
  }
  EXPECT_EQ(encore_standin_calls("hipMalloc"), 0);
  EXPECT_EQ(runs(), (std::array<int64_t, 4>{}));
  ENCORE_GPU_OK(gpuGraphExecDestroy(executable));
  ENCORE_GPU_OK(gpuGraphDestroy(graph));
}

TEST_F(RocmBlasTest, ChoicesAreKeptOnDiskAndServeOtherRowCounts) {
  const TempFolder folder;
  ASSERT_TRUE(make(BlasChoice::kHipblaslt, folder.path()).ok());
  Product product(kTimed);
  ASSERT_TRUE(tune(product).ok());
  ASSERT_TRUE(blas_->save_tuning().ok());
  ASSERT_TRUE(make(BlasChoice::kHipblaslt, folder.path()).ok());
  encore_standin_fail("");
  ASSERT_TRUE(tune(product).ok());
  EXPECT_EQ(runs(), (std::array<int64_t, 4>{}));  // nothing is timed
  Product fewer({5, kTimed.n, kTimed.k});
  expect_right(fewer);
  EXPECT_EQ(runs(), (std::array<int64_t, 4>{0, 0, 0, 1}));
}

TEST_F(RocmBlasTest, AShapeWithoutAnAlgorithmGoesToRocblasOnce) {
  ASSERT_TRUE(make(BlasChoice::kAuto).ok());
  Product product(kShort);
  encore_standin_fail("");
  expect_right(product);
  expect_right(product);
  EXPECT_EQ(counts_.fallbacks, 1);
  EXPECT_EQ(encore_standin_calls("rocblas_gemm_ex"), 2);
  EXPECT_EQ(encore_standin_calls("hipblasLtMatmulAlgoGetHeuristic"), 1);
  EXPECT_THAT(log_, Contains(HasSubstr("blas_fallback: product m=4 n=16 k=16 bf16 by rocBLAS, not "
                                       "by hipBLASLt: choosing an algorithm for product m=4")));
}

TEST_F(RocmBlasTest, AShapeOfWhichEveryAlgorithmIsRefusedGoesToRocblas) {
  ASSERT_TRUE(make(BlasChoice::kAuto).ok());
  std::string refusals;
  for (const char* algorithm : {"1", "2", "4"}) {
    refusals += std::string(refusals.empty() ? "" : ",") + "hipblasLtMatmul algorithm " +
                algorithm + ":1:" + kNotSupported;
  }
  encore_standin_fail(refusals.c_str());
  Product product(kTimed);
  ASSERT_TRUE(tune(product).ok());
  EXPECT_EQ(counts_.fallbacks, 1);
  encore_standin_fail("");
  expect_right(product);
  EXPECT_EQ(encore_standin_calls("rocblas_gemm_ex"), 1);
  EXPECT_EQ(runs(), (std::array<int64_t, 4>{}));
}

// A failure of the device is told, not hidden behind another library.
TEST_F(RocmBlasTest, AProductThatFailsIsAnError) {
  ASSERT_TRUE(make(BlasChoice::kAuto).ok());
  Product product(kTimed);
  encore_standin_fail((std::string("hipblasLtMatmul algorithm 1:1:") + kInternalError).c_str());
  const Status status = multiply(product);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_EQ(status.message(), "running product m=8 n=64 k=256 bf16: hipBLASLt status 6");
  EXPECT_EQ(counts_.fallbacks, 0);
}

struct Missing {
  const char* name;
  const char* failure;  // what is planned
  const char* words;    // in which it is told
};

class MissingHipblasltTest : public RocmBlasTest, public ::testing::WithParamInterface<Missing> {};

TEST_P(MissingHipblasltTest, AutoTakesRocblasAndSaysWhy) {
  encore_standin_fail(GetParam().failure);
  const Status status = make(BlasChoice::kAuto);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(counts_.hipblaslt, 0);
  EXPECT_EQ(counts_.rocblas, 1);
  EXPECT_THAT(log_, Contains(std::string("blas_hipblaslt_missing: ") + GetParam().words));
  EXPECT_THAT(log_, Contains("matrix products by rocBLAS: blas_rocblas"));
  Product product(kTimed);
  ASSERT_TRUE(tune(product).ok());
  expect_right(product);
}

TEST_P(MissingHipblasltTest, NamedItIsAnError) {
  encore_standin_fail(GetParam().failure);
  const Status status = make(BlasChoice::kHipblaslt);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), GetParam().words);
  EXPECT_EQ(counts_.hipblaslt, 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, MissingHipblasltTest,
    ::testing::Values(
        Missing{"NotStarted", "hipblasLtCreate:1:6", "starting hipBLASLt: hipBLASLt status 6"},
        Missing{"OfHip6", "hipblasLtGetVersion:1:800",
                "hipBLASLt is of version 0.8; this build is for versions 0.3 up to, not "
                "including, 0.4"},
        Missing{"WithoutKernels", "hipblasLtMatmulAlgoGetHeuristic:1:8",
                "hipBLASLt has no kernels for gfx90a:sramecc+:xnack-: choosing an algorithm for "
                "product m=128 n=128 k=128 bf16: hipBLASLt status 8"}),
    [](const ::testing::TestParamInfo<Missing>& test) { return test.param.name; });

TEST_F(RocmBlasTest, NamedHipblasltDoesNotFallBack) {
  ASSERT_TRUE(make(BlasChoice::kHipblaslt).ok());
  Product product(kShort);
  EXPECT_EQ(multiply(product).code(), StatusCode::kUnimplemented);
  EXPECT_EQ(counts_.fallbacks, 0);
}

}  // namespace
}  // namespace encore::rocm
