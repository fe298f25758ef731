// Ten thousand replays cost no memory, no precision and no time.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda_test_support.h"

namespace encore::cuda::testing {
namespace {

constexpr size_t kReplays = 10000;
constexpr size_t kWarmUp = 1000;
constexpr size_t kWindow = 1000;  // replays whose median time is compared

// Host memory is not ours alone: the driver's and the allocator's own needs change a little.
constexpr int64_t kHostBytes = int64_t{1} << 20;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

using ReplayTest = CudaTest;

TEST_F(ReplayTest, TenThousandReplaysKeepMemoryAndTimeFlatAndResultsEqual) {
  const auto backend = make_backend();
  TestModel model = load(*backend, "tiny_llama");
  const Runners runners = encore::testing::make_runners(model, small_runners());
  StepDriver driver(model.spec(), *runners.kv);
  Sequence sequence = driver.start(encore::testing::random_tokens(5, 40, model.spec().vocab_size));
  driver.run(*runners.graphs.prefill.runner, {{&sequence, 20, false}});

  std::vector<double> times_us;
  times_us.reserve(kReplays);
  StepResult first;
  int64_t allocations = 0;
  int64_t device_bytes = 0;
  int64_t host_bytes = 0;
  for (size_t replay = 0; replay < kReplays; ++replay) {
    if (replay == kWarmUp) {
      allocations = counter(*backend, "memory.allocations");
      device_bytes = free_device_bytes();
      host_bytes = resident_bytes();
    }
    sequence.cached = 20;
    driver.run(*runners.graphs.prefill.runner, {{&sequence, 19}});
    const auto start = std::chrono::steady_clock::now();
    const StepResult step = driver.run(*runners.graphs.decode.runner, {{&sequence, 1}});
    times_us.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
            .count());
    if (replay == 0) first = step;
    ASSERT_EQ(step.logits, first.logits) << "replay " << replay;
    ASSERT_EQ(step.tokens, first.tokens) << "replay " << replay;
  }
  EXPECT_EQ(counter(*backend, "memory.allocations"), allocations);
  EXPECT_EQ(free_device_bytes(), device_bytes);
  EXPECT_LE(resident_bytes() - host_bytes, kHostBytes);
  const auto warm = times_us.begin() + kWarmUp;
  const double early_us = median({warm, warm + kWindow});
  const double late_us = median({times_us.end() - kWindow, times_us.end()});
  // Clocks of host and device wander by some percent.
  EXPECT_LE(late_us, 1.2 * early_us + 5.0) << "early " << early_us << " us";
  EXPECT_TRUE(model.model->check_guards().ok());
}

}  // namespace
}  // namespace encore::cuda::testing
