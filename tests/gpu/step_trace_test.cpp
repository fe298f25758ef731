#include "step_trace.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu_test_support.h"
#include "kernel_trace.h"
#include "kernels/gpu/rows.h"

namespace encore::gpu::testing {
namespace {

constexpr int32_t kRows = 64;
constexpr int32_t kColumns = 4096;

class StepTraceTest : public GpuTest {
 protected:
  // Two ops of one kernel each, and a third of two; made before any trace begins.
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    live_ = std::make_unique<DeviceBuffer<int32_t>>(std::vector<int32_t>{kRows});
    x_ = std::make_unique<DeviceBuffer<uint16_t>>(random_bf16(size_t{kRows} * 2 * kColumns, 1));
    y_ = std::make_unique<DeviceBuffer<uint16_t>>(size_t{kRows} * kColumns);
    gpuGraph_t graph = nullptr;
    ENCORE_GPU_OK(gpuStreamBeginCapture(stream_, gpuStreamCaptureModeThreadLocal));
    labels_.begin_op(stream_, {"embed"});
    run_kernel();
    labels_.begin_op(stream_, {"gate_up", 3});
    run_kernel();
    labels_.begin_op(stream_, {"head"});
    run_kernel();
    run_kernel();
    ENCORE_GPU_OK(gpuStreamEndCapture(stream_, &graph));
    ENCORE_GPU_OK(gpuGraphInstantiate(&executable_, graph));
    ENCORE_GPU_OK(gpuGraphDestroy(graph));
  }
  void TearDown() override {
    if (executable_ != nullptr) ENCORE_GPU_OK(gpuGraphExecDestroy(executable_));
    GpuTest::TearDown();
  }

  void run_kernel() {
    ENCORE_GPU_OK(silu_mul({{live_->get(), kRows}, x_->get(), y_->get(), kColumns}, launch_));
  }
  void launch_graph(StepTrace& trace) {
    trace.launched(labels_, kNodes);
    ENCORE_GPU_OK(gpuGraphLaunch(executable_, stream_));
  }
  std::vector<TraceEvent> end(StepTrace& trace) {
    Result<std::vector<TraceEvent>> events = trace.end(stream_);
    EXPECT_TRUE(events.ok()) << events.status().to_string();
    return events.ok() ? std::move(events).value() : std::vector<TraceEvent>();
  }

  static constexpr int32_t kNodes = 4;
  std::unique_ptr<DeviceBuffer<int32_t>> live_;
  std::unique_ptr<DeviceBuffer<uint16_t>> x_, y_;
  NodeLabels labels_;
  gpuGraphExec_t executable_ = nullptr;
};

std::vector<std::string> names_of(const std::vector<TraceEvent>& events) {
  std::vector<std::string> names;
  for (const TraceEvent& event : events) names.push_back(event.name);
  return names;
}

TEST_F(StepTraceTest, TellsOfEachNodeByOpAndKernelEveryTime) {
  StepTrace trace(&cuda::kernel_trace());
  for (int round = 0; round < 3; ++round) {
    const Status begun = trace.begin(stream_);
    ASSERT_TRUE(begun.ok()) << begun.to_string();
    run_kernel();  // outside the graph: no op is known
    launch_graph(trace);
    const std::vector<TraceEvent> events = end(trace);
    if (events.size() == 1 && events[0].name == "step") GTEST_SKIP() << "no CUPTI here";
    EXPECT_EQ(names_of(events),
              (std::vector<std::string>{"silu_mul_kernel", "embed: silu_mul_kernel",
                                        "layer 3 gate_up: silu_mul_kernel", "head: silu_mul_kernel",
                                        "head: silu_mul_kernel"}));
    EXPECT_EQ(events.front().start_us, 0.0);
    for (size_t i = 0; i < events.size(); ++i) {
      // 1.5 MB at 15 TB/s, beyond any cache, take 0.1 us; none of this size takes a millisecond.
      EXPECT_GT(events[i].duration_us, 0.1) << i;
      EXPECT_LT(events[i].duration_us, 1000.0) << i;
      EXPECT_EQ(events[i].lane, 0) << i;
      if (i == 0) continue;
      EXPECT_GT(events[i].start_us, events[i - 1].start_us) << i;
    }
    // Between two traces nothing is kept.
    run_kernel();
    ENCORE_GPU_OK(gpuGraphLaunch(executable_, stream_));
    sync();
  }
}

TEST_F(StepTraceTest, TellsOfCopiesAndFills) {
  StepTrace trace(&cuda::kernel_trace());
  const size_t bytes = y_->size() * sizeof(uint16_t);
  void* host = nullptr;  // page-locked: a copy of other memory may be made of several
  ENCORE_GPU_OK(gpuHostAlloc(&host, bytes, 0));
  ASSERT_TRUE(trace.begin(stream_).ok());
  ENCORE_GPU_OK(gpuMemsetAsync(y_->get(), 0, bytes, stream_));
  ENCORE_GPU_OK(gpuMemcpyAsync(x_->get(), y_->get(), bytes, gpuMemcpyDeviceToDevice, stream_));
  ENCORE_GPU_OK(gpuMemcpyAsync(host, y_->get(), bytes, gpuMemcpyDeviceToHost, stream_));
  ENCORE_GPU_OK(gpuMemcpyAsync(x_->get(), host, bytes, gpuMemcpyHostToDevice, stream_));
  const std::vector<TraceEvent> events = end(trace);
  ENCORE_GPU_OK(gpuFreeHost(host));
  if (events.size() == 1 && events[0].name == "step") GTEST_SKIP() << "no CUPTI here";
  EXPECT_EQ(names_of(events), (std::vector<std::string>{"fill", "copy", "copy out", "copy in"}));
}

TEST_F(StepTraceTest, WithoutATracerGivesTheWholeTime) {
  StepTrace trace(nullptr);
  ASSERT_TRUE(trace.begin(stream_).ok());
  launch_graph(trace);
  const std::vector<TraceEvent> events = end(trace);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].name, "step");
  EXPECT_GT(events[0].duration_us, 0.4);  // four kernels of 0.1 us at least
}

TEST_F(StepTraceTest, RefusesASecondTraceMeanwhile) {
  StepTrace trace(&cuda::kernel_trace());
  StepTrace other(&cuda::kernel_trace());
  ASSERT_TRUE(trace.begin(stream_).ok());
  EXPECT_EQ(trace.begin(stream_).code(), StatusCode::kFailedPrecondition);
  const Status second = other.begin(stream_);
  run_kernel();
  const std::vector<TraceEvent> events = end(trace);
  EXPECT_EQ(trace.end(stream_).status().code(), StatusCode::kFailedPrecondition);
  if (events.size() == 1 && events[0].name == "step") GTEST_SKIP() << "no CUPTI here";
  EXPECT_EQ(second.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(names_of(events), std::vector<std::string>{"silu_mul_kernel"});
  EXPECT_TRUE(other.begin(stream_).ok()) << "the first trace has ended";
  run_kernel();
  EXPECT_EQ(end(other).size(), 1U);
}

}  // namespace
}  // namespace encore::gpu::testing
