#include "step_profile.h"

#include <gtest/gtest.h>

namespace encore::bench {
namespace {

TEST(StepProfileTest, OwnTimeAndGapsSumToTheStep) {
  const std::vector<TraceEvent> events = {
      {"layer 0 qkv: a", 0.0, 10.0},   // own 10
      {"layer 0 o: b", 8.0, 7.0},      // begins early: own 5
      {"layer 1 qkv: a", 9.0, 3.0},    // ends within the one before: own 0
      {"layer 1 o: b", 19.0, 6.0},     // after 4 of nothing: own 6
      {"layer 10 qkv: a", 26.0, 4.0},  // after 1: own 4
  };
  const StepProfile profile = profile_of(events);
  EXPECT_DOUBLE_EQ(profile.step_us, 30.0);
  EXPECT_DOUBLE_EQ(profile.gap_us, 5.0);
  ASSERT_EQ(profile.names.size(), 2U);
  const NameTotal& a = profile.names[0];
  EXPECT_EQ(a.name, "qkv: a");
  EXPECT_EQ(a.count, 3);
  EXPECT_DOUBLE_EQ(a.busy_us, 17.0);
  EXPECT_DOUBLE_EQ(a.own_us, 14.0);
  EXPECT_DOUBLE_EQ(a.gap_us, 1.0);
  const NameTotal& b = profile.names[1];
  EXPECT_EQ(b.count, 2);
  EXPECT_DOUBLE_EQ(b.own_us, 11.0);
  EXPECT_DOUBLE_EQ(b.gap_us, 4.0);
  ASSERT_EQ(profile.gaps.size(), 2U);
  EXPECT_EQ(profile.gaps[0].before, "layer 1 qkv: a");
  EXPECT_EQ(profile.gaps[0].after, "layer 1 o: b");
}

TEST(StepProfileTest, OpsAddUpTheirKernels) {
  const StepProfile profile =
      profile_of({{"head: cublas 64x8", 0.0, 3.0}, {"head: sum", 3.0, 2.0}, {"fill", 5.0, 1.0}});
  EXPECT_DOUBLE_EQ(profile.own_us_of_op("head"), 5.0);
  EXPECT_DOUBLE_EQ(profile.own_us_of_op("qkv"), 0.0);
  EXPECT_EQ(op_of("fill"), "fill");
  EXPECT_EQ(without_layer("layer 31 gate_up: x"), "gate_up: x");
  EXPECT_EQ(without_layer("layer"), "layer");
}

TEST(StepProfileTest, NoEventsAreNoTime) {
  const StepProfile profile = profile_of({});
  EXPECT_EQ(profile.step_us, 0.0);
  EXPECT_TRUE(profile.names.empty());
}

}  // namespace
}  // namespace encore::bench
