#include <cstdlib>

#include "standin_test_support.h"

namespace encore::standin::testing {
namespace {

// Not a fixture that cleans up: the processes end with what they hold.
TEST(ReportDeathTest, LeaksAreToldAtTheEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        void* data = nullptr;
        hipStream_t stream = nullptr;
        hipEvent_t event = nullptr;
        static_cast<void>(hipMalloc(&data, 64));
        static_cast<void>(hipMalloc(&data, 36));
        static_cast<void>(hipHostMalloc(&data, 8, 0));
        static_cast<void>(hipStreamCreate(&stream));
        static_cast<void>(hipEventCreate(&event));
        std::exit(0);
      },
      ::testing::ExitedWithCode(0),
      "2 device allocations \\(100 bytes\\), 1 page-locked allocation \\(8 bytes\\), 1 stream, "
      "1 event left; used wrongly 0 times");
}

TEST(ReportDeathTest, GraphsAndMisuseToo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        hipStream_t stream = nullptr;
        hipGraph_t graph = nullptr;
        hipGraphExec_t executable = nullptr;
        static_cast<void>(hipStreamCreate(&stream));
        static_cast<void>(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
        static_cast<void>(hipStreamEndCapture(stream, &graph));
        static_cast<void>(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
        static_cast<void>(hipStreamDestroy(stream));
        static_cast<void>(hipFree(stream));
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "1 graph, 1 executable graph left; used wrongly 1 times");
}

TEST(ReportDeathTest, NothingIsSaidWhereNothingIsLeft) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        void* data = nullptr;
        static_cast<void>(hipMalloc(&data, 64));
        static_cast<void>(hipFree(data));
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace encore::standin::testing
