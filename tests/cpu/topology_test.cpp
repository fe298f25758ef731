#include "topology.h"

#include <gtest/gtest.h>

#include <vector>

namespace encore::cpu {
namespace {

TEST(Topology, OneThreadAPhysicalCore) {
  // Processors 0 and 2 are siblings, 1 and 3 too.
  const Topology topology{{{0, 10}, {1, 11}, {2, 10}, {3, 11}}, 0.0};
  EXPECT_EQ(thread_processors(topology), (std::vector<int32_t>{0, 1}));
}

TEST(Topology, AffinityMaskLimits) {
  const Topology topology{{{5, 2}, {6, 3}}, 0.0};
  EXPECT_EQ(thread_processors(topology), (std::vector<int32_t>{5, 6}));
}

TEST(Topology, QuotaIsRoundedDownButNotToZero) {
  Topology topology{{{0, 0}, {1, 1}, {2, 2}, {3, 3}}, 2.9};
  EXPECT_EQ(thread_processors(topology), (std::vector<int32_t>{0, 1}));
  topology.quota = 0.5;
  EXPECT_EQ(thread_processors(topology), (std::vector<int32_t>{0}));
  topology.quota = 64.0;
  EXPECT_EQ(thread_processors(topology).size(), 4U);
}

TEST(Topology, NothingKnownIsOneThread) { EXPECT_EQ(thread_processors(Topology{}).size(), 1U); }

TEST(Topology, ThisMachineHasAProcessor) { EXPECT_FALSE(read_topology().processors.empty()); }

}  // namespace
}  // namespace encore::cpu
