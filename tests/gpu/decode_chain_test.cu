// The decode chain against float64 with bf16 where memory is, against separate kernels at full
// size, and what it promises about bits, rows and repeated runs.
#include <memory>
#include <string>

#include "gpu_test_support.h"
#include "kernels/gpu/decode_chain.h"
#include "kernels/gpu/decode_linear.h"
#include "sm90/decode_chain_shape.cuh"
#include "sm90/decode_chain_tuning.h"
#include "sm90/decode_linear_tuning.h"

namespace encore::gpu {
namespace {

using testing::DeviceBuffer;
using testing::from_bf16;
using testing::GpuTest;
using testing::random_bf16;
using testing::to_bf16;

constexpr int kMostRows = kDecodeChainMaxRows;
constexpr float kEps = 1e-5F;

struct Sizes {
  int hidden, q, inter, qkv;
};

using Values = std::vector<uint16_t>;

// Weights and inputs of 64 rows, and what comes of them.
struct Layer {
  Sizes size;
  Values o, gate_up, down, qkv_weight, qkv_bias, mlp_norm, next_norm, attended, hidden0;
  std::vector<double> hidden, normed, qkv;  // [64, ...]
  std::vector<double> square;               // [64]: sum of hidden^2

  explicit Layer(const Sizes& s) : size(s) {
    uint32_t seed = 1;
    auto weight = [&](int n, int k) {
      return random_bf16(static_cast<size_t>(n) * k, seed++,
                         1.0F / std::sqrt(static_cast<float>(k)));
    };
    o = weight(s.hidden, s.q);
    gate_up = weight(2 * s.inter, s.hidden);
    down = weight(s.hidden, s.inter);
    qkv_weight = weight(s.qkv, s.hidden);
    qkv_bias = random_bf16(s.qkv, seed++);
    mlp_norm = random_bf16(s.hidden, seed++);
    next_norm = random_bf16(s.hidden, seed++);
    attended = random_bf16(static_cast<size_t>(kMostRows) * s.q, seed++);
    hidden0 = random_bf16(static_cast<size_t>(kMostRows) * s.hidden, seed++);
    for (int row = 0; row < kMostRows; ++row) compute(row);
  }

 private:
  static double rounded(double value) { return from_bf16(to_bf16(static_cast<float>(value))); }
  static double dot(const Values& w, int n, const std::vector<double>& x) {
    double sum = 0.0;
    const uint16_t* row = &w[static_cast<size_t>(n) * x.size()];
    for (size_t i = 0; i < x.size(); ++i) sum += from_bf16(row[i]) * x[i];
    return sum;
  }
  // x = h * norm in bf16; gives 1 / rms of h.
  double prepare(const std::vector<double>& h, const Values& norm, std::vector<double>* x) const {
    double sum = 0.0;
    x->clear();
    for (size_t i = 0; i < h.size(); ++i) {
      sum += h[i] * h[i];
      x->push_back(rounded(h[i] * from_bf16(norm[i])));
    }
    return 1.0 / std::sqrt(sum / static_cast<double>(h.size()) + kEps);
  }
  void compute(int row) {
    std::vector<double> a(size.q);
    for (int i = 0; i < size.q; ++i)
      a[i] = from_bf16(attended[static_cast<size_t>(row) * size.q + i]);
    std::vector<double> h(size.hidden);
    for (int i = 0; i < size.hidden; ++i) {
      h[i] = rounded(from_bf16(hidden0[static_cast<size_t>(row) * size.hidden + i]) + dot(o, i, a));
    }
    std::vector<double> x;
    double scale = prepare(h, mlp_norm, &x);
    std::vector<double> act(size.inter);
    for (int i = 0; i < size.inter; ++i) {
      const double gate = scale * dot(gate_up, i, x);
      act[i] = rounded(gate / (1.0 + std::exp(-gate)) * scale * dot(gate_up, size.inter + i, x));
    }
    for (int i = 0; i < size.hidden; ++i) h[i] = rounded(h[i] + dot(down, i, act));
    scale = prepare(h, next_norm, &x);
    hidden.insert(hidden.end(), h.begin(), h.end());
    normed.insert(normed.end(), x.begin(), x.end());
    square.push_back(0.0);
    for (const double v : h) square.back() += v * v;
    for (int i = 0; i < size.qkv; ++i) {
      qkv.push_back(scale * dot(qkv_weight, i, x) + from_bf16(qkv_bias[i]));
    }
  }
};

// A layer on the device for m rows, with a row of outputs more than it has.
class Chain {
 public:
  // `scratch`: null for its own.
  Chain(const Layer& layer, int m, DeviceBuffer<uint8_t>* scratch = nullptr)
      : layer_(layer),
        m_(m),
        o_(layer.o),
        gate_up_(layer.gate_up),
        down_(layer.down),
        qkv_weight_(layer.qkv_weight),
        qkv_bias_(layer.qkv_bias),
        mlp_norm_(layer.mlp_norm),
        next_norm_(layer.next_norm),
        attended_(layer.attended),
        hidden_(rows(layer.size.hidden)),
        normed_(rows(layer.size.hidden)),
        qkv_(rows(std::max(layer.size.qkv, 1))),
        sumsq_(rows(num_sumsq())),
        scratch_(scratch) {
    if (scratch_ != nullptr) return;
    own_scratch_ = std::make_unique<DeviceBuffer<uint8_t>>(
        decode_chain_scratch_bytes(problem_without_scratch()));
    own_scratch_->fill(0);
    scratch_ = own_scratch_.get();
  }

  DecodeChainProblem problem() {
    DecodeChainProblem q = problem_without_scratch();
    q.scratch = scratch_->get();
    return q;
  }
  DecodeChainProblem problem_without_scratch() {
    DecodeChainProblem q;
    q.m = m_, q.hidden_size = layer_.size.hidden, q.q_size = layer_.size.q;
    q.inter_size = layer_.size.inter, q.qkv_size = layer_.size.qkv;
    q.o = o_.get(), q.gate_up = gate_up_.get(), q.down = down_.get();
    if (q.qkv_size > 0) {
      q.qkv_weight = qkv_weight_.get(), q.qkv_bias = qkv_bias_.get(), q.qkv = qkv_.get();
    }
    q.mlp_norm = mlp_norm_.get(), q.next_norm = next_norm_.get(), q.eps = kEps;
    q.attended = attended_.get(), q.hidden = hidden_.get(), q.normed = normed_.get();
    q.sumsq = sumsq_.get();
    return q;
  }

  // Inputs as they are at first; rows from `live` on hold NaN.
  void reset(int live) {
    hidden_.fill(0xCD), normed_.fill(0xCD), qkv_.fill(0xCD), sumsq_.fill(0xCD);
    attended_.put(with_nan(layer_.attended, live, layer_.size.q));
    Values h = with_nan(layer_.hidden0, live, layer_.size.hidden);
    h.resize(static_cast<size_t>(m_) * layer_.size.hidden);
    hidden_.put(h);
  }
  void collect() {
    hidden = hidden_.host(), normed = normed_.host(), qkv = qkv_.host(), sumsq = sumsq_.host();
  }
  void run(const DecodeChainPlan& plan, const Launch& launch, int live = kMostRows) {
    reset(live);
    ENCORE_GPU_OK(decode_chain_run(plan, launch));
    collect();
  }

  void expect_right() const {
    expect_close(hidden, layer_.hidden, layer_.size.hidden, "hidden");
    expect_close(normed, layer_.normed, layer_.size.hidden, "normed");
    expect_close(qkv, layer_.qkv, layer_.size.qkv, "qkv");
    for (int row = 0; row < m_; ++row) {
      double found = 0.0;
      for (int i = 0; i < num_sumsq(); ++i) found += sumsq[row * num_sumsq() + i];
      ASSERT_TRUE(std::abs(found - layer_.square[row]) < 5e-3 * layer_.square[row]) << row;
    }
    for (size_t i = static_cast<size_t>(m_) * num_sumsq(); i < sumsq.size(); ++i) {
      uint32_t bits;
      std::memcpy(&bits, &sumsq[i], 4);
      ASSERT_EQ(bits, 0xCDCDCDCDU) << "sumsq is written past its last row";
    }
  }

  // All that the chain says about a row, as bytes.
  std::string row_bytes(int row) const {
    std::string all;
    auto append = [&](const auto& values, int width) {
      all.append(reinterpret_cast<const char*>(values.data() + static_cast<size_t>(row) * width),
                 width * sizeof(values[0]));
    };
    append(hidden, layer_.size.hidden);
    append(normed, layer_.size.hidden);
    append(qkv, layer_.size.qkv);
    append(sumsq, num_sumsq());
    return all;
  }

  Values hidden, normed, qkv;
  std::vector<float> sumsq;

 private:
  size_t rows(int width) const { return static_cast<size_t>(m_ + 1) * width; }
  int num_sumsq() const { return layer_.size.hidden / kDecodeChainSumsqRows; }
  static Values with_nan(Values values, int live, int width) {
    std::fill(values.begin() + static_cast<size_t>(live) * width, values.end(), uint16_t{0x7fc0});
    return values;
  }
  // bf16 rounding gives 1.7e-3 of a row. A sum at the edge between two bf16 values may fall to
  // either side, here and in the three roundings before it.
  void expect_close(const Values& values, const std::vector<double>& all, int width,
                    const char* name) const {
    for (int row = 0; row < m_; ++row) {
      const auto first = all.begin() + static_cast<size_t>(row) * width;
      const std::vector<double> want(first, first + width);
      std::vector<double> found(width);
      for (int i = 0; i < width; ++i)
        found[i] = from_bf16(values[static_cast<size_t>(row) * width + i]);
      const double error = testing::relative_error(found, want);
      ASSERT_TRUE(error < 5e-3) << name << ", row " << row << ": relative error " << error;
    }
    for (size_t i = static_cast<size_t>(m_) * width; i < values.size(); ++i) {
      ASSERT_EQ(values[i], 0xCDCD) << name << " is written past its last row";
    }
  }

  const Layer& layer_;
  int m_;
  DeviceBuffer<uint16_t> o_, gate_up_, down_, qkv_weight_, qkv_bias_, mlp_norm_, next_norm_;
  DeviceBuffer<uint16_t> attended_, hidden_, normed_, qkv_;
  DeviceBuffer<float> sumsq_;
  DeviceBuffer<uint8_t>* scratch_;
  std::unique_ptr<DeviceBuffer<uint8_t>> own_scratch_;
};

// Products of 24 to 80 steps, of tiles of 3 to 8.
const Layer& small_layer() {
  static const Layer layer({512, 384, 640, 448});
  return layer;
}

class DecodeChainTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (decode_check_device() != cudaSuccess) {
      GTEST_SKIP() << "not a device of compute capability 9.0";
    }
  }

  // `blocks` from one, which has all to itself, to one a step of the shortest product.
  void check(const Layer& layer, std::initializer_list<int> rows,
             std::initializer_list<int> blocks) {
    for (const int m : rows) {
      Chain chain(layer, m);
      const int tokens = m <= 8 ? 8 : m <= 16 ? 16 : m <= 32 ? 32 : 64;
      const int short_ring = 8192 + 3 * chain_stage_bytes(tokens);
      for (const int num_blocks : blocks) {
        for (const int smem : {short_ring, kWholeSmemBytes}) {
          SCOPED_TRACE("m " + std::to_string(m) + " blocks " + std::to_string(num_blocks) +
                       " smem " + std::to_string(smem));
          DecodeChainPlan plan;
          ENCORE_GPU_OK(decode_chain_plan_tuned(chain.problem(), {num_blocks, smem}, &plan));
          chain.run(plan, launch_);
          chain.expect_right();
          if (HasFailure()) return;
        }
      }
    }
  }
};

TEST_F(DecodeChainTest, ComputesALayerHoweverItIsCut) {
  check(small_layer(), {1, 8, 9, 16, 17, 32, 33, 64}, {1, 2, 5, 11, 24});
}
TEST_F(DecodeChainTest, EndsWithHiddenWithoutQkv) {
  static const Layer layer({1024, 512, 1408, 0});
  check(layer, {1, 5, 16, 31, 64}, {3, 16, 64});
}
TEST_F(DecodeChainTest, SmallestShape) {
  static const Layer layer({128, 128, 128, 64});
  check(layer, {1, 64}, {1});
}
TEST_F(DecodeChainTest, TilesOfAnOddNumberOfSteps) {
  static const Layer layer({896, 896, 1152, 1152});
  check(layer, {1, 3, 40}, {7, 60, 98});
}

TEST_F(DecodeChainTest, ARowKeepsItsBitsWhateverTheNumberOfRows) {
  std::string first;
  for (const int m : {1, 2, 8, 9, 16, 24, 32, 33, 64}) {
    Chain chain(small_layer(), m);
    for (int variant = 0; variant < kDecodeChainVariants; ++variant) {
      DecodeChainPlan plan;
      ENCORE_GPU_OK(decode_chain_plan(chain.problem(), variant, &plan));
      chain.run(plan, launch_);
      chain.expect_right();
      if (HasFailure()) return;
      if (first.empty()) first = chain.row_bytes(0);
      ASSERT_TRUE(chain.row_bytes(0) == first) << "m " << m << " variant " << variant;
    }
  }
}

TEST_F(DecodeChainTest, RowsThatHoldAnythingLeaveOthersAlone) {
  for (const auto& [m, live] : {std::pair(8, 1), std::pair(8, 7), std::pair(16, 9),
                                std::pair(32, 17), std::pair(64, 33), std::pair(64, 63)}) {
    Chain clean(small_layer(), m);
    Chain dirty(small_layer(), m);
    DecodeChainPlan plan;
    ENCORE_GPU_OK(decode_chain_plan(clean.problem(), 0, &plan));
    clean.run(plan, launch_);
    ENCORE_GPU_OK(decode_chain_plan(dirty.problem(), 0, &plan));
    dirty.run(plan, launch_, live);
    for (int row = 0; row < live; ++row) {
      ASSERT_TRUE(clean.row_bytes(row) == dirty.row_bytes(row)) << "m " << m << " row " << row;
    }
  }
}

// Chains of several m share scratch, start early and are replayed: as a decode graph does it.
TEST_F(DecodeChainTest, RepeatedRunsKeepBits) {
  Chain first(small_layer(), 3);
  DeviceBuffer<uint8_t> scratch(decode_chain_scratch_bytes(first.problem()));
  scratch.fill(0);
  Chain small(small_layer(), 3, &scratch);
  Chain large(small_layer(), 40, &scratch);
  DecodeChainPlan small_plan;
  DecodeChainPlan large_plan;
  ENCORE_GPU_OK(decode_chain_plan(small.problem(), 0, &small_plan));
  ENCORE_GPU_OK(decode_chain_plan(large.problem(), 1, &large_plan));
  constexpr int kLayers = 10;  // each goes on with the hidden of the one before
  auto enqueue = [&](const Launch& launch) {
    for (int i = 0; i < kLayers; ++i) {
      ASSERT_EQ(decode_chain_run(small_plan, launch), cudaSuccess);
      ASSERT_EQ(decode_chain_run(large_plan, launch), cudaSuccess);
    }
  };
  small.reset(kMostRows), large.reset(kMostRows);
  enqueue({stream_, false});
  small.collect(), large.collect();
  const Values small_hidden = small.hidden;
  const Values large_hidden = large.hidden;
  ASSERT_TRUE(std::isfinite(from_bf16(large_hidden[0])));
  for (int row = 0; row < 3; ++row) {
    ASSERT_TRUE(small.row_bytes(row) == large.row_bytes(row)) << "row " << row;
  }

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ENCORE_GPU_OK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  enqueue({stream_, true});
  ENCORE_GPU_OK(cudaStreamEndCapture(stream_, &graph));
  ENCORE_GPU_OK(cudaGraphInstantiate(&executable, graph, 0));
  constexpr int kReplays = 200;
  for (int replay = 0; replay < kReplays; ++replay) {
    small.reset(kMostRows), large.reset(kMostRows);
    ENCORE_GPU_OK(cudaGraphLaunch(executable, stream_));
    small.collect(), large.collect();
    ASSERT_TRUE(small.hidden == small_hidden) << "replay " << replay;
    ASSERT_TRUE(large.hidden == large_hidden) << "replay " << replay;
  }
  ENCORE_GPU_OK(cudaGraphExecDestroy(executable));
  ENCORE_GPU_OK(cudaGraphDestroy(graph));

  ChainControl control;
  std::memcpy(&control, scratch.host().data(), sizeof(control));
  EXPECT_EQ(control.epoch, 2U * kLayers * (kReplays + 1));
  EXPECT_EQ(control.done, 0U);
  for (const uint32_t ready : control.ready) EXPECT_EQ(ready, 0U);
}

// ---- full size ----

__global__ void fill_random(bf16* p, size_t count, float range, uint32_t seed) {
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += stride) {
    const uint64_t mixed = (i + seed) * 0x9e3779b97f4a7c15ULL;
    const uint32_t hash = static_cast<uint32_t>((mixed ^ (mixed >> 29)) >> 16) * 0x85ebca6bU;
    p[i] = __float2bfloat16((static_cast<float>(hash) / 2147483648.0F - 1.0F) * range);
  }
}

struct RandomBuffer : DeviceBuffer<bf16> {
  RandomBuffer(size_t count, float range, uint32_t seed) : DeviceBuffer<bf16>(count) {
    fill_random<<<1024, 256>>>(get(), count, range, seed);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
};

std::vector<double> doubles(const std::vector<bf16>& values, size_t count) {
  std::vector<double> result(count);
  for (size_t i = 0; i < count; ++i) result[i] = __bfloat162float(values[i]);
  return result;
}

// The layer of Llama-3.1-8B and of Llama-3.2-1B by the chain and by a kernel a product.
TEST_F(DecodeChainTest, AgreesWithSeparateKernels) {
  for (const Sizes& s : {Sizes{4096, 4096, 14336, 6144}, Sizes{2048, 2048, 8192, 3072}}) {
    auto range = [](int k) { return 1.7F / std::sqrt(static_cast<float>(k)); };
    const size_t h = s.hidden;
    RandomBuffer o(h * s.q, range(s.q), 1), gate_up(2 * h * s.inter, range(s.hidden), 2);
    RandomBuffer down(h * s.inter, range(s.inter), 3), qkv_weight(h * s.qkv, range(s.hidden), 4);
    RandomBuffer mlp_norm(h, 1.0F, 5), next_norm(h, 1.0F, 6);
    RandomBuffer attended(h * kMostRows, 1.7F, 7), hidden0(h * kMostRows, 1.7F, 8);
    DeviceBuffer<bf16> hidden(h * kMostRows), normed(h * kMostRows);
    DeviceBuffer<bf16> act(static_cast<size_t>(s.inter) * kMostRows);
    DeviceBuffer<bf16> qkv(static_cast<size_t>(s.qkv) * kMostRows);
    DeviceBuffer<float> sumsq(static_cast<size_t>(kMostRows) * kDecodeLinearMaxSumsq);
    DecodeChainProblem q;
    q.hidden_size = s.hidden, q.q_size = s.q, q.inter_size = s.inter, q.qkv_size = s.qkv;
    q.o = o.get(), q.gate_up = gate_up.get(), q.down = down.get(), q.qkv_weight = qkv_weight.get();
    q.mlp_norm = mlp_norm.get(), q.next_norm = next_norm.get(), q.eps = kEps;
    q.attended = attended.get(), q.hidden = hidden.get(), q.qkv = qkv.get();
    q.normed = normed.get(), q.sumsq = sumsq.get();
    DeviceBuffer<uint8_t> scratch(decode_chain_scratch_bytes(q));
    scratch.fill(0);
    q.scratch = scratch.get();
    for (const int m : {1, 16, 64}) {
      q.m = m;
      hidden.put(hidden0.host());
      int num_sumsq = 0;
      auto multiply = [&](DecodeLinearProblem product, bool norm) {
        product.m = m;
        if (norm) product.sumsq = sumsq.get(), product.num_sumsq = num_sumsq, product.eps = kEps;
        if (product.epilogue == DecodeEpilogue::kAdd) {
          product.y = hidden.get(), product.x_out = normed.get(), product.sumsq_out = sumsq.get();
        }
        DecodeLinearPlan plan;
        ASSERT_EQ(decode_linear_plan(product, 0, &plan), cudaSuccess);
        ASSERT_EQ(decode_linear_run(plan, launch_), cudaSuccess);
        if (plan.num_sumsq_out > 0) num_sumsq = plan.num_sumsq_out;
      };
      DecodeLinearProblem product;
      product.epilogue = DecodeEpilogue::kAdd;
      product.n = s.hidden, product.k = s.q, product.w = o.get(), product.x = attended.get();
      product.norm_weight = mlp_norm.get();
      multiply(product, false);
      product.k = s.inter, product.w = down.get(), product.x = act.get();
      product.norm_weight = next_norm.get();
      DecodeLinearProblem gate;
      gate.epilogue = DecodeEpilogue::kSiluMul;
      gate.n = 2 * s.inter, gate.k = s.hidden, gate.w = gate_up.get(), gate.x = normed.get();
      gate.y = act.get();
      multiply(gate, true);
      multiply(product, false);
      DecodeLinearProblem last;
      last.n = s.qkv, last.k = s.hidden, last.w = qkv_weight.get(), last.x = normed.get();
      last.y = qkv.get();
      multiply(last, true);
      if (HasFailure()) return;
      const std::vector<double> want_hidden = doubles(hidden.host(), h * m);
      const std::vector<double> want_qkv = doubles(qkv.host(), static_cast<size_t>(s.qkv) * m);

      for (int variant = 0; variant < kDecodeChainVariants; ++variant) {
        hidden.put(hidden0.host()), qkv.fill(0xCD);
        DecodeChainPlan plan;
        ENCORE_GPU_OK(decode_chain_plan(q, variant, &plan));
        ENCORE_GPU_OK(decode_chain_run(plan, launch_));
        // As against float64, less the last rounding, which both have.
        EXPECT_LT(testing::relative_error(doubles(hidden.host(), want_hidden.size()), want_hidden),
                  4e-3)
            << m;
        EXPECT_LT(testing::relative_error(doubles(qkv.host(), want_qkv.size()), want_qkv), 5e-3)
            << m;
        if (HasFailure()) return;
      }
    }
  }
}

TEST(DecodeChainContractTest, RefusesWhatItDoesNotServe) {
  alignas(16) static char memory[64];
  DecodeChainProblem good;
  good.m = 1, good.hidden_size = 128, good.q_size = 128, good.inter_size = 128;
  good.o = good.gate_up = good.down = good.mlp_norm = good.next_norm = good.attended = memory;
  good.hidden = good.normed = good.scratch = memory;
  good.sumsq = reinterpret_cast<float*>(memory);
  ASSERT_TRUE(decode_chain_serves(good));
  const std::vector<std::function<void(DecodeChainProblem&)>> faults = {
      [](auto& q) { q.m = 0; },
      [](auto& q) { q.m = 65; },
      [](auto& q) { q.hidden_size = 192; },
      [](auto& q) { q.q_size = 0; },
      [](auto& q) { q.inter_size = 64; },
      [](auto& q) { q.qkv_size = 64; },
      [](auto& q) { q.qkv_size = 32, q.qkv_weight = memory, q.qkv = memory; },
      [](auto& q) { q.qkv_size = 64, q.qkv_weight = memory, q.qkv = memory + 8; },
      [](auto& q) { q.o = nullptr; },
      [](auto& q) { q.down = memory + 8; },
      [](auto& q) { q.next_norm = nullptr; },
      [](auto& q) { q.sumsq = nullptr; },
      [](auto& q) { q.scratch = memory + 4; },
  };
  for (size_t i = 0; i < faults.size(); ++i) {
    DecodeChainProblem bad = good;
    faults[i](bad);
    EXPECT_FALSE(decode_chain_serves(bad)) << "fault " << i;
    DecodeChainPlan plan;
    EXPECT_NE(decode_chain_plan(bad, 0, &plan), cudaSuccess) << "fault " << i;
  }
  DecodeChainPlan plan;
  EXPECT_NE(decode_chain_plan(good, -1, &plan), cudaSuccess);
  EXPECT_NE(decode_chain_plan(good, kDecodeChainVariants, &plan), cudaSuccess);
}

}  // namespace
}  // namespace encore::gpu
