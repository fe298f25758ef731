#include "encore/lowering/arena.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace encore::lowering {
namespace {

TEST(ArenaPlan, TensorsOfDifferentTimesShareMemory) {
  ArenaPlan plan;
  const int32_t first = plan.add("first", 1000, 0, 1);
  const int32_t second = plan.add("second", 1000, 2, 3);
  plan.solve();
  EXPECT_EQ(plan.offset(first), 0);
  EXPECT_EQ(plan.offset(second), 0);
  EXPECT_EQ(plan.bytes(), 1024);  // rounded to 64
}

TEST(ArenaPlan, TensorsThatMeetAtOneStageDoNotOverlap) {
  ArenaPlan plan;
  const int32_t input = plan.add("input", 64, 0, 1);
  const int32_t output = plan.add("output", 64, 1, 2);
  plan.solve();
  EXPECT_NE(plan.offset(input), plan.offset(output));
  EXPECT_EQ(plan.bytes(), 128);
}

TEST(ArenaPlan, SmallTensorFillsAGap) {
  ArenaPlan plan;
  plan.add("low", 256, 0, 9);
  plan.add("middle", 192, 0, 4);
  plan.add("high", 128, 0, 9);
  const int32_t late = plan.add("late", 64, 5, 9);
  plan.solve();
  EXPECT_EQ(plan.offset(late), 256);  // where "middle" was
  EXPECT_EQ(plan.bytes(), 576);
}

TEST(ArenaPlan, NoTwoLiveTensorsOverlapInRandomPlans) {
  uint32_t state = 7;
  const auto next = [&](uint32_t bound) {
    state = state * 1664525U + 1013904223U;
    return static_cast<int32_t>((state >> 8) % bound);
  };
  struct Tensor {
    int64_t bytes;
    int32_t first, last, id;
  };
  for (int32_t round = 0; round < 100; ++round) {
    ArenaPlan plan;
    std::vector<Tensor> tensors;
    for (int32_t i = 0; i < 20; ++i) {
      const int32_t first = next(10);
      Tensor tensor{next(500) + 1, first, first + next(4), 0};
      tensor.id = plan.add("t", tensor.bytes, tensor.first, tensor.last);
      tensors.push_back(tensor);
    }
    plan.solve();
    for (const Tensor& a : tensors) {
      EXPECT_EQ(plan.offset(a.id) % ArenaPlan::kAlignment, 0);
      EXPECT_LE(plan.offset(a.id) + a.bytes, plan.bytes());
      for (const Tensor& b : tensors) {
        if (a.id == b.id || a.last < b.first || b.last < a.first) continue;
        EXPECT_TRUE(plan.offset(a.id) + a.bytes <= plan.offset(b.id) ||
                    plan.offset(b.id) + b.bytes <= plan.offset(a.id));
      }
    }
  }
}

}  // namespace
}  // namespace encore::lowering
