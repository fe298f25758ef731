#include "plan.h"

#include <gtest/gtest.h>

#include <array>

namespace encore::cpu {
namespace {

struct BigArgs {
  std::array<int32_t, 1000> values;
  int32_t* sum;
};

void sum_values(const BigArgs& args, const kernels::Worker&) {
  for (const int32_t value : args.values) *args.sum += value;
}

TEST(Plan, KeepsItsOwnCopyOfTheArguments) {
  int32_t sum = 0;
  Plan plan;
  {
    BigArgs args{};
    args.sum = &sum;
    for (int32_t node = 1; node <= 20; ++node) {  // several chunks of arguments
      args.values.fill(node);
      plan.add(sum_values, args);
    }
    args.values.fill(1000000);
  }
  EXPECT_EQ(plan.num_nodes(), 20);
  EXPECT_GE(plan.executable_bytes(), static_cast<int64_t>(20 * sizeof(BigArgs)));
  for (const PlanNode& node : plan.nodes()) node.call(node, kernels::Worker{});
  EXPECT_EQ(sum, 1000 * 20 * 21 / 2);
}

}  // namespace
}  // namespace encore::cpu
