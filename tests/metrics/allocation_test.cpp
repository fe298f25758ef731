// Counts every allocation of the process: observing tokens makes none.
#include <gtest/gtest.h>

#include "../allocation_counter.h"
#include "metrics/server_metrics.h"

namespace encore {
namespace {

// 100 requests at a time, 10 tokens each.
void observe_rounds(ServerMetrics& metrics, int32_t rounds) {
  RequestEvent event;
  event.token = 1;
  for (int32_t round = 0; round < rounds; ++round) {
    for (int32_t token = 1; token <= 10; ++token) {
      for (uint64_t row = 0; row < 100; ++row) {
        event.request = static_cast<uint64_t>(round) * 100 + row + 1;
        event.output_tokens = token;
        event.timings = {1000, 2000, 1000 + token * 1000};
        event.finish = token == 10 ? FinishReason::kLength : FinishReason::kNone;
        metrics.observe(event);
      }
    }
  }
}

TEST(MetricsAllocationTest, ObservingAllocatesNothing) {
  ServerMetrics metrics("model");
  observe_rounds(metrics, 1);
  const int64_t before = num_allocations;
  observe_rounds(metrics, 20);
  metrics.refused(429);
  EXPECT_EQ(num_allocations - before, 0);
}

}  // namespace
}  // namespace encore
