// What a step pays for crossing the boundary: no allocation, and little time.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "backend_proxy.h"
#include "encore/sdk/backend_plugin.h"
#include "fake_backend.h"
#include "plugin_test_util.h"

namespace {
int64_t num_allocations = 0;
}

// Not inlined: the compiler would then warn of a mismatch that is not there.
__attribute__((noinline)) void* operator new(size_t size) {
  ++num_allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t /*size*/) noexcept {
  std::free(memory);
}

namespace encore {
namespace {

// Does nothing, so that all that is seen is the crossing.
class IdleRunner : public Runner {
 public:
  RunnerKind kind() const override { return RunnerKind::kEager; }
  RunnerCheck check(const ForwardBatch& batch, const StepOutput& output) const override {
    return {.reason = Reason::kNone, .bucket = batch.num_tokens() + int32_t(output.tokens.size())};
  }
  Result<Ticket> submit(const ForwardBatch& /*batch*/, const StepOutput& /*output*/) override {
    return next_++;
  }
  Status wait(Ticket /*ticket*/, int64_t /*timeout_us*/) override { return {}; }

 private:
  Ticket next_ = 1;
};

class IdleKv : public KvCache {
 public:
  explicit IdleKv(const KvOptions& options) : options_(options) {}
  KvInfo info() const override {
    return {.num_pages = options_.num_pages, .page_size = options_.page_size};
  }
  Status copy_pages(std::span<const PageCopy> /*copies*/) override { return {}; }
  Status read_page(int32_t /*page*/, std::span<std::byte> /*out*/) const override { return {}; }

 private:
  KvOptions options_;
};

class IdleModel : public Model {
 public:
  ModelInfo info() const override { return {}; }
  Result<std::unique_ptr<KvCache>> create_kv(const KvOptions& options) override {
    return std::unique_ptr<KvCache>(std::make_unique<IdleKv>(options));
  }
  Result<RunnerCapture> create_eager(KvCache& /*kv*/, const CaptureOptions& /*options*/) override {
    RunnerCapture capture;
    capture.runner = std::make_unique<IdleRunner>();
    return capture;
  }
  Result<RunnerCapture> capture_prefill(KvCache& kv, const CaptureOptions& options) override {
    return create_eager(kv, options);
  }
  Result<RunnerCapture> capture_decode(KvCache& kv, const CaptureOptions& options) override {
    return create_eager(kv, options);
  }
  Status set_layer_observer(LayerObserver /*observer*/) override { return {}; }
  Status check_guards() const override { return {}; }
};

class IdleBackend : public FakeBackend {
 public:
  Result<std::unique_ptr<Model>> load_model(int32_t /*device*/, const ModelSpec& /*spec*/,
                                            const WeightSource& /*weights*/,
                                            const LoadOptions& /*options*/) override {
    return std::unique_ptr<Model>(std::make_unique<IdleModel>());
  }
};

TEST(CrossingTest, StepAllocatesNothing) {
  encore_error error;
  sdk::prepare_error(&error);
  const encore_host_info host = sdk::sized<encore_host_info>();
  LoadCode code = LoadCode::kNone;
  const auto context = negotiate(sdk::entry<IdleBackend>(&host, &error), &code);
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  BackendProxy backend(*context);
  ASSERT_TRUE(backend.init({}).ok());
  MemoryWeights weights;
  auto model = backend.load_model(0, small_spec(), weights, {});
  ASSERT_TRUE(model.ok());
  auto kv = (*model)->create_kv({.num_pages = 8, .page_size = 4});
  ASSERT_TRUE(kv.ok());
  auto capture = (*model)->create_eager(**kv, small_capture());
  ASSERT_TRUE(capture.ok());
  Runner& runner = *capture->runner;
  OneRequest step({1, 2, 3}, 0);
  const ForwardBatch batch = step.batch();
  const StepOutput output = step.output();

  const auto run = [&](int steps) {
    int64_t failures = 0;
    for (int i = 0; i < steps; ++i) {
      if (runner.check(batch, output).bucket != 4) ++failures;
      const Result<Ticket> ticket = runner.submit(batch, output);
      if (!ticket.ok() || !runner.wait(*ticket, -1).ok()) ++failures;
    }
    return failures;
  };
  ASSERT_EQ(run(1), 0);  // the first step makes the slot that its output lives in
  constexpr int kStepsARound = 10000;
  const int64_t before = num_allocations;
  double best_ns = 1e9;
  for (int round = 0; round < 10; ++round) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(run(kStepsARound), 0);
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    best_ns = std::min(best_ns, time.count() / kStepsARound);
  }
  EXPECT_EQ(num_allocations - before, 0);
  std::printf("check + submit + wait: %.0f ns a step\n", best_ns);
}

}  // namespace
}  // namespace encore
