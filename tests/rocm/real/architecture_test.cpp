// What the ROCm backend makes of the names of AMD's GPUs.
#include <gtest/gtest.h>

#include "rocm_architecture.h"

namespace encore::rocm {
namespace {

using gpu::MatrixUnit;

TEST(RocmArchitecture, FeaturesAreNoPartOfTheName) {
  EXPECT_EQ(architecture_of("gfx90a:sramecc+:xnack-"), "gfx90a");
  EXPECT_EQ(architecture_of("gfx1100"), "gfx1100");
  EXPECT_EQ(architecture_of(""), "");
}

TEST(RocmArchitecture, MatrixUnitFollowsTheName) {
  EXPECT_EQ(matrix_unit_of("gfx90a"), MatrixUnit::kMfma);
  EXPECT_EQ(matrix_unit_of("gfx942"), MatrixUnit::kMfma);
  EXPECT_EQ(matrix_unit_of("gfx1100"), MatrixUnit::kWmma);
  EXPECT_EQ(matrix_unit_of("gfx1103"), MatrixUnit::kWmma);
  // Older ones lack bf16 products of that shape; gfx12 has another layout.
  EXPECT_EQ(matrix_unit_of("gfx908"), MatrixUnit::kNone);
  EXPECT_EQ(matrix_unit_of("gfx906"), MatrixUnit::kNone);
  EXPECT_EQ(matrix_unit_of("gfx1030"), MatrixUnit::kNone);
  EXPECT_EQ(matrix_unit_of("gfx1201"), MatrixUnit::kNone);
  EXPECT_EQ(matrix_unit_of("gfx1"), MatrixUnit::kNone);
}

TEST(RocmArchitecture, ABuildServesTheOnesItNames) {
  EXPECT_TRUE(built_for("gfx90a, gfx942", "gfx90a"));
  EXPECT_TRUE(built_for("gfx90a, gfx942", "gfx942"));
  EXPECT_FALSE(built_for("gfx90a, gfx942", "gfx94"));
  EXPECT_FALSE(built_for("gfx90a, gfx942", "gfx9"));
  EXPECT_FALSE(built_for("gfx1100", "gfx110"));
  EXPECT_FALSE(built_for("", "gfx90a"));
}

}  // namespace
}  // namespace encore::rocm
