#include "kernels/cpu/gather.h"

#include <gtest/gtest.h>

#include "ops_test_support.h"

namespace encore::kernels {
namespace {

TEST(GatherRowsTest, CopiesChosenRowsAndNoOthers) {
  const std::vector<float> x = random_floats(6 * 10, 1);
  const int32_t rows[] = {5, 0, 0, 3};
  const int32_t live = 3;
  for (const int32_t threads : {1, 2, 3}) {
    std::vector<float> y(4 * 9, kPoison);
    GatherRowsArgs args{};
    args.num_rows = &live;
    args.rows = rows;
    args.x = x.data();
    args.x_stride = 10;
    args.y = y.data();
    args.y_stride = 9;
    args.columns = 8;
    run_team(gather_rows, args, threads);
    EXPECT_TRUE(same_bits(&y[0], &x[50], 8));
    EXPECT_TRUE(same_bits(&y[9], &x[0], 8));
    EXPECT_TRUE(same_bits(&y[18], &x[0], 8));
    EXPECT_EQ(y[8], kPoison);
    EXPECT_TRUE(all_poison(&y[27], 9));
  }
}

}  // namespace
}  // namespace encore::kernels
