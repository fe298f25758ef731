#include "cublas_lt.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cublas_library.h"
#include "gpu_test_support.h"
#include "temp_folder.h"

namespace encore::cuda {
namespace {

using gpu::Element;
using gpu::ProductOperands;
using gpu::ProductShape;
using gpu::testing::DeviceBuffer;
using gpu::testing::from_bf16;
using gpu::testing::random_bf16;
using gpu::testing::TempFolder;

#define ENCORE_EXPECT_OK(expression)                  \
  do {                                                \
    const ::encore::Status status_ = (expression);    \
    EXPECT_TRUE(status_.ok()) << status_.to_string(); \
  } while (false)

TEST(CublasLibraryTest, MissingLibraryNamesWhatWasTried) {
  const std::array<std::string, 2> candidates = {"libencore-no-such.so.1",
                                                 "/no/such/folder/lib.so"};
  const Result<CublasFunctions> opened = open_cublas(candidates);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), StatusCode::kUnavailable);
  for (const std::string& candidate : candidates) {
    EXPECT_NE(opened.status().message().find(candidate), std::string::npos)
        << opened.status().message();
  }
}

TEST(CublasLibraryTest, LibraryOfOtherContentIsRefused) {
  const std::array<std::string, 1> candidates = {"libm.so.6"};
  const Result<CublasFunctions> opened = open_cublas(candidates);
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.status().message().find("cublasLtMatmulAlgoCheck"), std::string::npos)
      << opened.status().message();
}

TEST(CublasLibraryTest, CandidatesEndWithTheUsualFolder) {
  const std::vector<std::string> candidates = cublas_candidates();
  ASSERT_GE(candidates.size(), 4U);
  EXPECT_EQ(candidates.front(), "libcublasLt.so.13");
  EXPECT_EQ(candidates.back(), "/usr/local/cuda/lib64/libcublasLt.so.12");
}

// Operands of one product on the device, with the exact result beside them.
class Product {
 public:
  explicit Product(const ProductShape& shape, uint32_t seed = 1)
      : shape_(shape),
        x_host_(random_bf16(size_t(shape.m) * shape.k, seed)),
        w_host_(random_bf16(size_t(shape.n) * shape.k, seed + 1)),
        bias_host_(random_bf16(size_t(shape.n), seed + 2)),
        y_host_(random_bf16(size_t(shape.m) * shape.n, seed + 3)),
        x_(x_host_),
        w_(w_host_),
        bias_(bias_host_),
        y_(size_t(shape.m) * shape.n * gpu::element_bytes(shape.output)) {
    reset();
  }

  // What y holds before: old values if they count, poison if not.
  void reset() {
    if (!shape_.accumulate) {
      y_.fill(0xFF);
      return;
    }
    std::vector<std::byte> raw(y_.size());
    for (size_t i = 0; i < y_host_.size(); ++i) {
      const float value = from_bf16(y_host_[i]);
      if (shape_.output == Element::kF32) std::memcpy(&raw[4 * i], &value, 4);
      if (shape_.output == Element::kBF16) std::memcpy(&raw[2 * i], &y_host_[i], 2);
    }
    y_.put(raw);
  }

  const ProductShape& shape() const { return shape_; }
  ProductOperands operands() {
    return {x_.get(), w_.get(), shape_.bias ? bias_.get() : nullptr, y_.get()};
  }

  std::vector<std::byte> raw() const { return y_.host(); }
  std::vector<double> found() const {
    const std::vector<std::byte> bytes = y_.host();
    std::vector<double> values(y_host_.size());
    for (size_t i = 0; i < values.size(); ++i) {
      float f32 = 0.0F;
      uint16_t bf16 = 0;
      if (shape_.output == Element::kF32) std::memcpy(&f32, &bytes[4 * i], 4);
      if (shape_.output == Element::kBF16) std::memcpy(&bf16, &bytes[2 * i], 2);
      values[i] = shape_.output == Element::kF32 ? f32 : from_bf16(bf16);
    }
    return values;
  }
  std::vector<double> expected() const {
    std::vector<double> values;
    values.reserve(y_host_.size());
    for (int32_t i = 0; i < shape_.m; ++i) {
      for (int32_t j = 0; j < shape_.n; ++j) {
        double sum = shape_.bias ? from_bf16(bias_host_[size_t(j)]) : 0.0;
        if (shape_.accumulate) sum += from_bf16(y_host_[size_t(i) * shape_.n + j]);
        for (int32_t c = 0; c < shape_.k; ++c) {
          sum += double(from_bf16(x_host_[size_t(i) * shape_.k + c])) *
                 from_bf16(w_host_[size_t(j) * shape_.k + c]);
        }
        values.push_back(sum);
      }
    }
    return values;
  }

 private:
  ProductShape shape_;
  std::vector<uint16_t> x_host_, w_host_, bias_host_, y_host_;
  DeviceBuffer<uint16_t> x_, w_, bias_;
  DeviceBuffer<std::byte> y_;
};

class CublasLtTest : public gpu::testing::GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    blas_ = make({});
  }

  std::unique_ptr<gpu::Blas> make(const std::filesystem::path& folder) {
    Result<std::unique_ptr<gpu::Blas>> made = make_cublas_lt(folder);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    if (!made.ok()) return nullptr;
    std::unique_ptr<gpu::Blas> blas = std::move(made).value();
    if (!workspace_) workspace_.emplace(size_t(blas->workspace_bytes()));
    blas->set_workspace(workspace_->get());
    return blas;
  }

  // f32 sums err by about 1e-6 in whatever order; a partial sum that went through bf16 would show
  // as 1e-3. Rounding results to bf16 is up to 2^-8 each, 1.7e-3 over a long vector.
  void expect_right(const Product& product) {
    const double limit = product.shape().output == Element::kF32 ? 1e-4 : 1.0 / 256;
    EXPECT_LT(gpu::testing::relative_error(product.found(), product.expected()), limit)
        << "m=" << product.shape().m << " n=" << product.shape().n << " k=" << product.shape().k
        << " accumulate=" << product.shape().accumulate << " bias=" << product.shape().bias;
  }

  std::optional<DeviceBuffer<std::byte>> workspace_;
  std::unique_ptr<gpu::Blas> blas_;
};

// Every output, addend and bias, on edge sizes; the first pass takes the library's own choice, the
// second what timing chose.
TEST_F(CublasLtTest, ProductsEqualDoublePrecision) {
  ASSERT_NE(blas_, nullptr);
  std::vector<ProductShape> shapes;
  for (const int32_t m : {1, 7, 64, 130}) {
    for (const auto& [n, k] : {std::pair(8, 8), std::pair(64, 576), std::pair(136, 264)}) {
      for (const bool accumulate : {false, true}) {
        shapes.push_back({m, n, k, Element::kBF16, accumulate, false});
        shapes.push_back({m, n, k, Element::kBF16, accumulate, true});
        shapes.push_back({m, n, k, Element::kF32, accumulate, false});
      }
    }
  }
  for (const ProductShape& shape : shapes) {
    Product product(shape);
    ENCORE_EXPECT_OK(blas_->multiply(shape, product.operands(), stream_));
    sync();
    expect_right(product);
    ENCORE_EXPECT_OK(blas_->tune(shape, product.operands(), {}, stream_));
    product.reset();
    ENCORE_EXPECT_OK(blas_->multiply(shape, product.operands(), stream_));
    sync();
    expect_right(product);
    if (HasFailure()) return;
  }
}

TEST_F(CublasLtTest, AChoiceServesRowCountsThatWereNotTuned) {
  ASSERT_NE(blas_, nullptr);
  for (const int32_t m : {32, 512}) {
    Product tuned({m, 512, 256, Element::kBF16, false, false});
    ENCORE_EXPECT_OK(blas_->tune(tuned.shape(), tuned.operands(), {}, stream_));
  }
  for (const int32_t m : {1, 2, 31, 33, 100, 511, 513, 700}) {
    Product product({m, 512, 256, Element::kBF16, false, false});
    ENCORE_EXPECT_OK(blas_->multiply(product.shape(), product.operands(), stream_));
    sync();
    expect_right(product);
  }
}

TEST_F(CublasLtTest, CapturedProductsReplayToTheSameBits) {
  ASSERT_NE(blas_, nullptr);
  // One prepared before the capture, one during it, and two biases through one prepared product.
  Product plain({16, 256, 1024, Element::kBF16, false, false});
  Product biased({16, 256, 128, Element::kBF16, false, true}, 11);
  Product other_bias({16, 256, 128, Element::kBF16, false, true}, 22);
  ENCORE_EXPECT_OK(blas_->tune(plain.shape(), plain.operands(), {}, stream_));
  plain.reset();
  ENCORE_GPU_OK(gpuStreamBeginCapture(stream_, gpuStreamCaptureModeThreadLocal));
  for (Product* product : {&plain, &biased, &other_bias}) {
    ENCORE_EXPECT_OK(blas_->multiply(product->shape(), product->operands(), stream_));
  }
  EXPECT_EQ(blas_->tune(plain.shape(), plain.operands(), {}, stream_).code(),
            StatusCode::kFailedPrecondition);
  gpuGraph_t graph = nullptr;
  gpuGraphExec_t executable = nullptr;
  ENCORE_GPU_OK(gpuStreamEndCapture(stream_, &graph));
  ENCORE_GPU_OK(gpuGraphInstantiate(&executable, graph));
  std::vector<std::byte> first;
  for (int round = 0; round < 20; ++round) {
    for (Product* product : {&plain, &biased, &other_bias}) product->reset();
    ENCORE_GPU_OK(gpuGraphLaunch(executable, stream_));
    sync();
    if (round == 0) {
      for (Product* product : {&plain, &biased, &other_bias}) expect_right(*product);
      first = plain.raw();
    }
    ASSERT_EQ(plain.raw(), first) << "replay " << round;
  }
  ENCORE_GPU_OK(gpuGraphExecDestroy(executable));
  ENCORE_GPU_OK(gpuGraphDestroy(graph));
}

// A long k and a small output invite the library to split k.
TEST_F(CublasLtTest, SplitSumsGiveTheSameBitsEveryTime) {
  ASSERT_NE(blas_, nullptr);
  Product product({8, 64, 16384, Element::kBF16, false, false});
  ENCORE_EXPECT_OK(blas_->tune(product.shape(), product.operands(), {}, stream_));
  std::vector<std::byte> first;
  for (int round = 0; round < 50; ++round) {
    product.reset();
    ENCORE_EXPECT_OK(blas_->multiply(product.shape(), product.operands(), stream_));
    sync();
    if (round == 0) first = product.raw();
    ASSERT_EQ(product.raw(), first) << "round " << round;
  }
  expect_right(product);
}

TEST_F(CublasLtTest, TuningTakesTurnsAmongWeightsAndLeavesThemAlone) {
  ASSERT_NE(blas_, nullptr);
  Product product({4, 128, 128, Element::kBF16, false, false});
  const std::vector<uint16_t> values = random_bf16(128 * 128, 5);
  DeviceBuffer<uint16_t> second(values);
  const std::array<const void*, 2> weights = {product.operands().w, second.get()};
  ENCORE_EXPECT_OK(blas_->tune(product.shape(), product.operands(), weights, stream_));
  EXPECT_EQ(second.host(), values);
  const std::array<const void*, 1> off = {reinterpret_cast<const std::byte*>(second.get()) + 2};
  EXPECT_EQ(blas_->tune(product.shape(), product.operands(), off, stream_).code(),
            StatusCode::kInvalidArgument);
}

TEST_F(CublasLtTest, ChoicesAreKeptOnDisk) {
  ASSERT_NE(blas_, nullptr);
  const TempFolder folder;
  const std::unique_ptr<gpu::Blas> first = make(folder.path());
  ASSERT_NE(first, nullptr);
  Product product({16, 256, 512, Element::kBF16, true, true});
  ENCORE_EXPECT_OK(first->tune(product.shape(), product.operands(), {}, stream_));
  ENCORE_EXPECT_OK(first->save_tuning());
  EXPECT_EQ(std::distance(begin(std::filesystem::directory_iterator(folder.path())),
                          end(std::filesystem::directory_iterator())),
            1);

  // With the choice on record nothing is timed: y keeps its poison.
  const std::unique_ptr<gpu::Blas> second = make(folder.path());
  ASSERT_NE(second, nullptr);
  product.reset();
  const std::vector<std::byte> before = product.raw();
  ENCORE_EXPECT_OK(second->tune(product.shape(), product.operands(), {}, stream_));
  sync();
  EXPECT_EQ(product.raw(), before);
  ENCORE_EXPECT_OK(second->multiply(product.shape(), product.operands(), stream_));
  sync();
  expect_right(product);
}

TEST_F(CublasLtTest, ImpossibleProductsAreRefused) {
  ASSERT_NE(blas_, nullptr);
  Product product({4, 64, 64, Element::kBF16, false, true});
  const ProductOperands good = product.operands();
  const auto code = [&](const ProductShape& shape, const ProductOperands& operands) {
    return blas_->multiply(shape, operands, stream_).code();
  };
  ProductShape shape = product.shape();
  shape.m = 0;
  EXPECT_EQ(code(shape, good), StatusCode::kInvalidArgument);
  shape = product.shape();
  shape.output = Element::kF32;
  EXPECT_EQ(code(shape, good), StatusCode::kInvalidArgument);
  shape.output = Element::kF16;
  EXPECT_EQ(code(shape, good), StatusCode::kInvalidArgument);
  ProductOperands operands = good;
  operands.bias = nullptr;
  EXPECT_EQ(code(product.shape(), operands), StatusCode::kInvalidArgument);
  operands = good;
  operands.x = static_cast<const std::byte*>(good.x) + 8;
  EXPECT_EQ(code(product.shape(), operands), StatusCode::kInvalidArgument);
  operands = good;
  operands.y = nullptr;
  EXPECT_EQ(code(product.shape(), operands), StatusCode::kInvalidArgument);
  Result<std::unique_ptr<gpu::Blas>> bare = make_cublas_lt({});
  ASSERT_TRUE(bare.ok());
  EXPECT_EQ((*bare)->multiply(product.shape(), good, stream_).code(),
            StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace encore::cuda
