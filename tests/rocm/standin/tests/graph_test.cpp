#include <utility>

#include "standin_test_support.h"

namespace encore::standin::testing {
namespace {

class GraphTest : public StandinTest {
 protected:
  // What `record` enqueues, made to be launched.
  template <typename Record>
  hipGraphExec_t make(Record record) {
    hipGraph_t graph = nullptr;
    hipGraphExec_t executable = nullptr;
    EXPECT_EQ(hipStreamBeginCapture(stream_, hipStreamCaptureModeThreadLocal), hipSuccess);
    record();
    EXPECT_EQ(hipStreamEndCapture(stream_, &graph), hipSuccess);
    EXPECT_EQ(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0), hipSuccess);
    EXPECT_EQ(hipGraphDestroy(graph), hipSuccess);  // the executable does not need it
    return executable;
  }
};

TEST_F(GraphTest, EachLaunchReadsMemoryAnewAndKeepsItsArguments) {
  int32_t* in = make_numbers(1);
  void* out = make_numbers(2);
  Scale how{3, 1};
  hipGraphExec_t executable = make([&] {
    ENCORE_HIP_OK(static_cast<hipError_t>(scale(in, 1, how, static_cast<int64_t*>(out), launch())));
    how = {0, 0};  // was copied
  });
  for (const int32_t value : {5, 7}) {
    int64_t result = 0;
    ENCORE_HIP_OK(hipMemcpyAsync(in, &value, 4, hipMemcpyHostToDevice, stream_));
    ENCORE_HIP_OK(hipGraphLaunch(executable, stream_));
    ENCORE_HIP_OK(hipMemcpyAsync(&result, out, 8, hipMemcpyDeviceToHost, stream_));
    EXPECT_EQ(result, 0);
    ENCORE_HIP_OK(hipStreamSynchronize(stream_));
    EXPECT_EQ(result, value * 3 + 1);
  }
  ENCORE_HIP_OK(hipGraphExecDestroy(executable));
}

TEST_F(GraphTest, NodesAreWhatWasEnqueued) {
  int32_t* numbers = make_numbers(2);
  hipGraph_t graph = nullptr;
  ENCORE_HIP_OK(hipStreamBeginCapture(stream_, hipStreamCaptureModeThreadLocal));
  ENCORE_HIP_OK(static_cast<hipError_t>(poke(numbers, 0, 1, launch())));
  ENCORE_HIP_OK(hipMemsetAsync(numbers, 0, 4, stream_));
  ENCORE_HIP_OK(hipMemcpyAsync(numbers + 1, numbers, 4, hipMemcpyDeviceToDevice, stream_));
  ENCORE_HIP_OK(hipStreamEndCapture(stream_, &graph));
  size_t count = 8;
  hipGraphNode_t nodes[8];
  ENCORE_HIP_OK(hipGraphGetNodes(graph, nodes, &count));
  ASSERT_EQ(count, 3U);
  const hipGraphNodeType types[] = {hipGraphNodeTypeKernel, hipGraphNodeTypeMemset,
                                    hipGraphNodeTypeMemcpy};
  for (size_t i = 0; i < count; ++i) {
    hipGraphNodeType type = hipGraphNodeTypeCount;
    ENCORE_HIP_OK(hipGraphNodeGetType(nodes[i], &type));
    EXPECT_EQ(type, types[i]);
  }
  ENCORE_HIP_OK(hipGraphDestroy(graph));
  EXPECT_EQ(hipGraphDestroy(graph), hipErrorInvalidValue);
}

TEST_F(GraphTest, DestroyedBeforeItsLaunchEndsIsMisuse) {
  int32_t* numbers = make_numbers(1);
  hipGraphExec_t executable = make([&] { ENCORE_HIP_OK(hipMemsetAsync(numbers, 1, 4, stream_)); });
  ENCORE_HIP_OK(hipGraphLaunch(executable, stream_));
  ENCORE_HIP_OK(hipGraphExecDestroy(executable));
  expect_misuses(1);
  EXPECT_EQ(read(numbers, 1)[0], 0x01010101);
  EXPECT_EQ(hipGraphLaunch(executable, stream_), hipErrorInvalidValue);
}

TEST_F(GraphTest, BelongsToTheDeviceOfItsCapture) {
  int32_t* numbers = make_numbers(1);
  hipGraphExec_t executable = make([&] { ENCORE_HIP_OK(hipMemsetAsync(numbers, 1, 4, stream_)); });
  ENCORE_HIP_OK(hipSetDevice(1));
  hipStream_t other = make_stream();
  EXPECT_EQ(hipGraphLaunch(executable, other), hipErrorInvalidValue);
  expect_misuses(1);
  ENCORE_HIP_OK(hipSetDevice(0));
  ENCORE_HIP_OK(hipGraphExecDestroy(executable));
}

TEST_F(GraphTest, OneLaunchRunsAtATime) {
  hipStream_t other = make_stream();
  int32_t* numbers = make_numbers(1);
  int32_t host = 0;
  hipGraphExec_t executable = make([&] { ENCORE_HIP_OK(hipMemsetAsync(numbers, 1, 4, stream_)); });
  ENCORE_HIP_OK(hipMemcpyAsync(&host, numbers, 4, hipMemcpyDeviceToHost, stream_));
  ENCORE_HIP_OK(hipGraphLaunch(executable, stream_));
  ENCORE_HIP_OK(hipGraphLaunch(executable, other));
  ENCORE_HIP_OK(hipStreamSynchronize(other));
  EXPECT_EQ(host, -1);  // all before the first launch has run, before it
  EXPECT_EQ(hipStreamQuery(stream_), hipSuccess);
  ENCORE_HIP_OK(hipGraphExecDestroy(executable));
}

}  // namespace
}  // namespace encore::standin::testing
