// The weight-streaming product against float64, in every form, and what it promises about bits.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "decode_linear_product.h"
#include "gpu_test_support.h"
#include "kernels/gpu/decode_linear.h"
#include "sm90/decode_linear_geometry.h"
#include "sm90/decode_linear_shape.cuh"

namespace encore::gpu {
namespace {

using testing::DeviceBuffer;
using testing::from_bf16;
using testing::GpuTest;
using testing::kEps;
using testing::Kind;
using testing::Product;
using testing::random_bf16;
using testing::stream_operands;
using testing::StreamOperands;

// Every kernel there is, with a ring of three stages (so that it wraps) and with a deep one.
std::vector<DecodeTuning> all_forms(const DecodeLinearProblem& problem) {
  std::vector<DecodeTuning> found;
  for (int warpgroups : {1, 2}) {
    for (int tiles : {1, 2}) {
      for (int sets : {1, 2}) {
        for (int split : {1, 2, 4}) {
          for (int smem : {0, kWholeSmemBytes}) {
            DecodeTuning t{warpgroups, tiles, sets, split, smem, 1};
            const int tokens = problem.m <= 16 ? 16 : problem.m <= 32 ? 32 : 64;
            if (smem == 0) {
              t.smem_bytes = 4096 + decode_received_bytes(t.row_tiles(), tokens) +
                             3 * (t.row_tiles() * kTileBytes + tokens * kStepK * 2);
            }
            if (decode_geometry_valid(problem, decode_geometry(problem, t, decode_num_sms()))) {
              found.push_back(t);
            }
          }
        }
      }
    }
  }
  return found;
}

class DecodeLinearTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    const StreamOperands& o = stream_operands(8, 64);
    Product probe(o, {}, 1);
    DecodeLinearPlan plan;
    if (decode_linear_plan(probe.problem(), 0, &plan) == cudaErrorNotSupported) {
      GTEST_SKIP() << "not a device of compute capability 9.0";
    }
  }

  void check_all_forms(int n, int k, const Kind& kind, std::initializer_list<int> rows,
                       size_t expected_forms) {
    const StreamOperands& o = stream_operands(n, k);
    for (int m : rows) {
      Product product(o, kind, m);
      const std::vector<DecodeTuning> forms = all_forms(product.problem());
      ASSERT_EQ(forms.size(), expected_forms);
      for (const DecodeTuning& t : forms) {
        SCOPED_TRACE("m " + std::to_string(m) + " warpgroups " + std::to_string(t.warpgroups) +
                     " tiles " + std::to_string(t.tiles) + " sets " + std::to_string(t.sets) +
                     " split " + std::to_string(t.split) + " smem " + std::to_string(t.smem_bytes));
        DecodeLinearPlan plan;
        ENCORE_GPU_OK(decode_linear_plan_tuned(product.problem(), t, &plan));
        product.run(plan, launch_);
        product.expect_right();
        if (HasFailure()) return;
      }
    }
  }
};

constexpr auto kStore = DecodeEpilogue::kStore;
constexpr auto kSiluMul = DecodeEpilogue::kSiluMul;
constexpr auto kAdd = DecodeEpilogue::kAdd;

// 12 k steps; a row count that ends inside a tile. Forms: three direct kernels and two that
// exchange at two splits, each with two rings.
TEST_F(DecodeLinearTest, StoresProductsInEveryForm) {
  check_all_forms(1000, 768, {kStore, false, false}, {1, 2, 7, 8, 9, 16, 17, 32, 33, 63, 64}, 14);
  check_all_forms(1000, 768, {kStore, true, true}, {1, 16, 31, 64}, 14);
}
TEST_F(DecodeLinearTest, StoresLogitsAsF32InEveryForm) {
  check_all_forms(1000, 768, {kStore, true, true, Element::kF32}, {1, 8, 13, 29, 64}, 14);
}
TEST_F(DecodeLinearTest, MultipliesGateAndUpInEveryForm) {
  check_all_forms(720, 768, {kSiluMul, false, false}, {1, 8, 9, 16, 32, 61, 64}, 10);
  check_all_forms(720, 768, {kSiluMul, true, true}, {1, 12, 27, 64}, 10);
}
TEST_F(DecodeLinearTest, AddsInEveryForm) {
  check_all_forms(1000, 768, {kAdd, false, false}, {1, 8, 9, 16, 32, 61, 64}, 12);
  check_all_forms(1000, 768, {kAdd, true, true}, {1, 2, 7, 12, 27, 64}, 12);
}
// More row groups than multiprocessors: blocks go on to further groups, sets take turns.
TEST_F(DecodeLinearTest, WalksOverManyRowGroups) {
  check_all_forms(36008, 128, {kStore, true, true, Element::kF32}, {1, 64}, 10);
  check_all_forms(36000, 128, {kSiluMul, true, true}, {3, 64}, 8);
  check_all_forms(36008, 128, {kAdd, false, true}, {5, 64}, 8);
}
TEST_F(DecodeLinearTest, SmallestShape) {
  check_all_forms(8, 64, {kStore, true, true}, {1, 64}, 6);
  check_all_forms(16, 64, {kSiluMul, true, true}, {1, 64}, 6);
  check_all_forms(8, 64, {kAdd, true, true}, {1, 64}, 4);
  // Four steps of k: every split.
  check_all_forms(8, 256, {kStore, true, true}, {1, 64}, 14);
  check_all_forms(16, 256, {kSiluMul, true, true}, {1, 64}, 10);
  check_all_forms(8, 256, {kAdd, true, true}, {1, 64}, 12);
}

struct ModelShape {
  int n, k;
  DecodeEpilogue epilogue;
};
// Small enough for the host, and odd in the ways of real models.
constexpr ModelShape kShapes[] = {
    {2304, 1024, kStore}, {1536, 896, kAdd}, {2816, 512, kSiluMul}, {9000, 256, kStore}};

TEST_F(DecodeLinearTest, VariantsGiveARowItsBitsWhateverTheNumberOfRows) {
  for (const ModelShape& shape : kShapes) {
    const StreamOperands& o = stream_operands(shape.n, shape.k);
    std::map<int, std::string> first;  // by decode_linear_bits(): row 0
    int default_bits = -1;
    for (int m : {1, 2, 8, 9, 16, 24, 32, 33, 64}) {
      Product product(o, {shape.epilogue, true, true}, m);
      const int variants = decode_linear_num_variants(product.problem());
      ASSERT_GE(variants, 2);
      for (int v = 0; v < variants; ++v) {
        SCOPED_TRACE("n " + std::to_string(shape.n) + " m " + std::to_string(m) + " variant " +
                     std::to_string(v));
        DecodeLinearPlan plan;
        ENCORE_GPU_OK(decode_linear_plan(product.problem(), v, &plan));
        product.run(plan, launch_);
        product.expect_right();
        const int bits = decode_linear_bits(product.problem(), v);
        ASSERT_GE(bits, 0);
        if (v == 0 && default_bits < 0) default_bits = bits;
        if (v == 0) ASSERT_EQ(bits, default_bits);
        const auto [at, is_new] = first.emplace(bits, product.row_bytes(0));
        if (!is_new) ASSERT_TRUE(product.row_bytes(0) == at->second) << "row 0 changed its bits";
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(DecodeLinearTest, RowsThatHoldAnythingLeaveOthersAlone) {
  for (const ModelShape& shape : kShapes) {
    const StreamOperands& o = stream_operands(shape.n, shape.k);
    for (const auto& [m, live] : {std::pair(8, 1), std::pair(8, 7), std::pair(16, 9),
                                  std::pair(32, 17), std::pair(64, 33), std::pair(64, 63)}) {
      Product clean(o, {shape.epilogue, true, true}, m);
      Product dirty(o, {shape.epilogue, true, true}, m);
      dirty.poison(live);
      for (int v = 0; v < decode_linear_num_variants(clean.problem()); ++v) {
        SCOPED_TRACE("n " + std::to_string(shape.n) + " m " + std::to_string(m) + " live " +
                     std::to_string(live) + " variant " + std::to_string(v));
        DecodeLinearPlan plan;
        ENCORE_GPU_OK(decode_linear_plan(clean.problem(), v, &plan));
        clean.run(plan, launch_);
        ENCORE_GPU_OK(decode_linear_plan(dirty.problem(), v, &plan));
        dirty.run(plan, launch_);
        for (int r = 0; r < live; ++r) ASSERT_TRUE(clean.row_bytes(r) == dirty.row_bytes(r)) << r;
        if (HasFailure()) return;
      }
    }
  }
}

// A chain as in a layer, each product reading what the one before wrote: starting early must not
// change a bit.
TEST_F(DecodeLinearTest, OverlapKeepsBits) {
  const int width = 1024;
  const int m = 16;
  const StreamOperands& o = stream_operands(width, width);
  DeviceBuffer<uint16_t> w(o.w);
  DeviceBuffer<uint16_t> norm_weight(o.norm_weight);
  DeviceBuffer<uint16_t> x(o.x);
  DeviceBuffer<uint16_t> hidden(o.y0);
  DeviceBuffer<uint16_t> next_x(static_cast<size_t>(m) * width);
  DeviceBuffer<float> sumsq(static_cast<size_t>(m) * kDecodeLinearMaxSumsq);
  DecodeLinearProblem add;
  add.m = m, add.n = width, add.k = width;
  add.w = w.get(), add.x = x.get(), add.y = hidden.get(), add.epilogue = kAdd;
  add.norm_weight = norm_weight.get(), add.x_out = next_x.get(), add.sumsq_out = sumsq.get();
  DecodeLinearPlan add_plan;
  ENCORE_GPU_OK(decode_linear_plan(add, 0, &add_plan));
  DecodeLinearProblem store;
  store.m = m, store.n = width, store.k = width;
  store.w = w.get(), store.x = next_x.get(), store.y = x.get();
  store.sumsq = sumsq.get(), store.num_sumsq = add_plan.num_sumsq_out, store.eps = kEps;
  DecodeLinearPlan store_plan;
  ENCORE_GPU_OK(decode_linear_plan(store, 0, &store_plan));

  std::vector<uint16_t> serial;
  for (int repeat = 0; repeat < 20; ++repeat) {
    x.put(o.x);
    hidden.put(o.y0);
    launch_.overlap = repeat > 0;
    for (int layer = 0; layer < 12; ++layer) {
      ENCORE_GPU_OK(decode_linear_run(add_plan, launch_));
      ENCORE_GPU_OK(decode_linear_run(store_plan, launch_));
    }
    const std::vector<uint16_t> found = x.host();
    if (repeat == 0) serial = found;
    ASSERT_TRUE(found == serial) << "repeat " << repeat;
    ASSERT_TRUE(std::all_of(found.begin(), found.end(),
                            [](uint16_t v) { return std::isfinite(from_bf16(v)); }));
  }
}

// Full-size products, on weights that repeat; some columns against the host.
TEST_F(DecodeLinearTest, ServesTheShapesOfModels) {
  constexpr ModelShape shapes[] = {{6144, 4096, kStore},    {4096, 4096, kAdd},
                                   {28672, 4096, kSiluMul}, {4096, 14336, kAdd},
                                   {151936, 1024, kStore},  {128256, 2048, kStore}};
  constexpr size_t kPeriod = 1000003;
  const std::vector<uint16_t> block = random_bf16(kPeriod, 9, 0.05F);
  const int m = 3;
  for (const ModelShape& shape : shapes) {
    std::vector<uint16_t> w(static_cast<size_t>(shape.n) * shape.k);
    for (size_t at = 0; at < w.size(); at += kPeriod) {
      std::copy_n(block.begin(), std::min(kPeriod, w.size() - at), w.begin() + at);
    }
    const std::vector<uint16_t> x = random_bf16(static_cast<size_t>(m) * shape.k, 10);
    const int out_n = shape.epilogue == kSiluMul ? shape.n / 2 : shape.n;
    const bool logits = shape.n > 100000;
    DeviceBuffer<uint16_t> w_device(w);
    DeviceBuffer<uint16_t> x_device(x);
    DeviceBuffer<float> y(static_cast<size_t>(m) * out_n);  // room for either element
    DecodeLinearProblem q;
    q.m = m, q.n = shape.n, q.k = shape.k, q.w = w_device.get(), q.x = x_device.get();
    q.y = y.get(), q.epilogue = shape.epilogue;
    if (logits) q.output = Element::kF32;
    auto dot = [&](int row, int column) {
      double sum = 0.0;
      for (int i = 0; i < shape.k; ++i) {
        sum += static_cast<double>(from_bf16(x[static_cast<size_t>(row) * shape.k + i])) *
               from_bf16(w[static_cast<size_t>(column) * shape.k + i]);
      }
      return sum;
    };
    for (int v = 0; v < decode_linear_num_variants(q); ++v) {
      SCOPED_TRACE("n " + std::to_string(shape.n) + " variant " + std::to_string(v));
      y.fill(0);
      DecodeLinearPlan plan;
      ENCORE_GPU_OK(decode_linear_plan(q, v, &plan));
      ENCORE_GPU_OK(decode_linear_run(plan, launch_));
      const std::vector<float> found = y.host();
      for (int i = 0; i < 60; ++i) {
        const int column = i == 0 ? out_n - 1 : static_cast<int>(7919LL * 13 * i % out_n);
        const int row = i % m;
        const size_t at = static_cast<size_t>(row) * out_n + column;
        double want = dot(row, column);
        if (shape.epilogue == kSiluMul) want *= dot(row, out_n + column) / (1 + std::exp(-want));
        const double got =
            logits ? found[at] : from_bf16(reinterpret_cast<const uint16_t*>(found.data())[at]);
        // One bf16 rounding is 2^-9 of the value; sums are about 3, their f32 error below 1e-5.
        ASSERT_NEAR(got, want, logits ? 1e-4 : std::abs(want) / 250 + 1e-4) << column;
      }
      if (HasFailure()) return;
    }
  }
}

TEST(DecodeLinearContractTest, RefusesWhatItDoesNotServe) {
  alignas(16) static char memory[64];
  DecodeLinearProblem good;
  good.m = 1, good.n = 64, good.k = 64, good.w = memory, good.x = memory, good.y = memory;
  ASSERT_TRUE(decode_linear_serves(good));
  const std::vector<std::function<void(DecodeLinearProblem&)>> faults = {
      [](auto& q) { q.m = 0; },
      [](auto& q) { q.m = 65; },
      [](auto& q) { q.n = 60; },
      [](auto& q) { q.n = 0; },
      [](auto& q) { q.n = 72, q.epilogue = kSiluMul; },
      [](auto& q) { q.k = 96; },
      [](auto& q) { q.k = 0; },
      [](auto& q) { q.w = nullptr; },
      [](auto& q) { q.x = memory + 8; },
      [](auto& q) { q.y = memory + 2; },
      [](auto& q) { q.bias = memory + 8; },
      [](auto& q) { q.output = Element::kF16; },
      [](auto& q) { q.output = Element::kF32, q.epilogue = kAdd; },
      [](auto& q) { q.sumsq = reinterpret_cast<float*>(memory); },
      [](auto& q) { q.x_out = memory; },
      [](auto& q) { q.epilogue = kAdd, q.x_out = memory, q.norm_weight = memory; },
  };
  for (size_t i = 0; i < faults.size(); ++i) {
    DecodeLinearProblem bad = good;
    faults[i](bad);
    EXPECT_FALSE(decode_linear_serves(bad)) << "fault " << i;
    EXPECT_EQ(decode_linear_num_variants(bad), 0) << "fault " << i;
    DecodeLinearPlan plan;
    EXPECT_NE(decode_linear_plan(bad, 0, &plan), cudaSuccess) << "fault " << i;
  }
}

}  // namespace
}  // namespace encore::gpu
