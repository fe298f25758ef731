// A replayed step allocates nothing, from the batch to the sampled token. A binary of its own,
// because it counts every call of operator new.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

#include "cpu_backend.h"
#include "model/model_files.h"

namespace {

std::atomic<int64_t> allocations{0};

void* count_and_allocate(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* pointer = std::malloc(bytes == 0 ? 1 : bytes)) return pointer;
  throw std::bad_alloc();
}

}  // namespace

// Not inlined: a compiler that sees one half only takes `free` for a mistake.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return count_and_allocate(bytes); }
[[gnu::noinline]] void* operator new[](std::size_t bytes) { return count_and_allocate(bytes); }
// std::stable_sort asks for this one; AddressSanitizer has its own, which `free` does not match.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void operator delete(void* pointer) noexcept { std::free(pointer); }
[[gnu::noinline]] void operator delete[](void* pointer) noexcept { std::free(pointer); }
[[gnu::noinline]] void operator delete(void* pointer, std::size_t) noexcept { std::free(pointer); }
[[gnu::noinline]] void operator delete[](void* pointer, std::size_t) noexcept {
  std::free(pointer);
}

namespace encore::cpu {
namespace {

// Two requests of eight cached tokens, one new token each, over page 0 and page 1.
struct DecodeStep {
  std::array<int32_t, 2> token_ids = {5, 6};
  std::array<int32_t, 2> positions = {8, 8};
  std::array<int32_t, 3> starts = {0, 1, 2};
  std::array<int32_t, 2> kv_len = {9, 9};
  std::array<int32_t, 2> page_ids = {0, 1};
  std::array<int32_t, 2> logit_rows = {0, 1};
  std::array<RowSampling, 2> sampling{};
  std::array<int32_t, 2> tokens{};
  std::array<int32_t, 2> row_status{};

  ForwardBatch batch() const {
    ForwardBatch batch;
    batch.token_ids = token_ids;
    batch.positions = positions;
    batch.q_start = starts;
    batch.kv_len = kv_len;
    batch.page_start = starts;
    batch.page_ids = page_ids;
    batch.logit_rows = logit_rows;
    batch.sampling = sampling;
    batch.num_valid_tokens = 260;
    return batch;
  }
  StepOutput output() {
    StepOutput output;
    output.tokens = tokens;
    output.row_status = row_status;
    return output;
  }
};

class ReplayAllocation : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(backend_.init({{"threads", "2"}, {"isa", "auto"}, {"pin", "false"}}).ok());
    auto files = open_model(ENCORE_GOLDENS_FOLDER "/models/tiny_llama");
    ASSERT_TRUE(files.ok()) << files.status().to_string();
    files_ = std::move(files).value();
    auto model = backend_.load_model(0, files_.spec, *files_.weights, {});
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    model_ = std::move(model).value();
    KvOptions kv;
    kv.num_pages = 4;
    auto cache = model_->create_kv(kv);
    ASSERT_TRUE(cache.ok()) << cache.status().to_string();
    kv_ = std::move(cache).value();
    options_.limits.max_requests = 4;
    options_.limits.max_tokens = 16;
    options_.limits.max_context = 32;
  }

  // Allocations of 100 steps, after a first one.
  int64_t allocations_of(Runner& runner) {
    DecodeStep step;
    const StepOutput output = step.output();
    int64_t before = 0;
    for (int32_t i = 0; i <= 100; ++i) {
      if (i == 1) before = allocations.load();
      const auto ticket = runner.submit(step.batch(), output);
      EXPECT_TRUE(ticket.ok() && runner.wait(*ticket, -1).ok());
    }
    return allocations.load() - before;
  }

  CpuBackend backend_;
  ModelFiles files_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<KvCache> kv_;
  CaptureOptions options_;
};

TEST_F(ReplayAllocation, DecodeGraphAllocatesNothing) {
  auto capture = model_->capture_decode(*kv_, options_);
  ASSERT_TRUE(capture.ok());
  EXPECT_EQ(allocations_of(*capture->runner), 0);
}

TEST_F(ReplayAllocation, PrefillGraphsAllocateNothing) {
  for (const PrefillMode mode : {PrefillMode::kFull, PrefillMode::kBreakable}) {
    options_.prefill_mode = mode;
    auto capture = model_->capture_prefill(*kv_, options_);
    ASSERT_TRUE(capture.ok());
    EXPECT_EQ(allocations_of(*capture->runner), 0);
  }
}

TEST_F(ReplayAllocation, EagerAllocatesNothing) {
  auto capture = model_->create_eager(*kv_, options_);
  ASSERT_TRUE(capture.ok());
  EXPECT_EQ(allocations_of(*capture->runner), 0);
}

}  // namespace
}  // namespace encore::cpu
