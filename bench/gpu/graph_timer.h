// Times what a program enqueues, as one graph.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "vendor.h"

namespace encore::gpu {

// Ends the program if a call failed.
inline void check(int error, const char* what) {
  if (error == gpuSuccess) return;
  std::printf("%s: %s\n", what, gpuGetErrorString(static_cast<gpuError_t>(error)));
  std::exit(1);
}

// Median milliseconds of `rounds` replays of one graph that holds what `enqueue` puts on the
// stream, after three more.
inline double time_graph(gpuStream_t stream, const std::function<void()>& enqueue, int rounds) {
  gpuGraph_t graph = nullptr;
  gpuGraphExec_t executable = nullptr;
  gpuEvent_t begin = nullptr;
  gpuEvent_t end = nullptr;
  check(gpuStreamBeginCapture(stream, gpuStreamCaptureModeThreadLocal), "capture");
  enqueue();
  check(gpuStreamEndCapture(stream, &graph), "capture");
  check(gpuGraphInstantiate(&executable, graph), "instantiate");
  check(gpuEventCreateWithFlags(&begin, 0), "event");
  check(gpuEventCreateWithFlags(&end, 0), "event");
  std::vector<float> times;
  for (int i = -3; i < rounds; ++i) {
    float ms = 0.0F;
    check(gpuEventRecord(begin, stream), "record");
    check(gpuGraphLaunch(executable, stream), "launch");
    check(gpuEventRecord(end, stream), "record");
    check(gpuEventSynchronize(end), "run");
    check(gpuEventElapsedTime(&ms, begin, end), "elapsed");
    if (i >= 0) times.push_back(ms);
  }
  check(gpuEventDestroy(begin), "event");
  check(gpuEventDestroy(end), "event");
  check(gpuGraphExecDestroy(executable), "graph");
  check(gpuGraphDestroy(graph), "graph");
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// The same on a stream of its own.
inline double time_graph(const std::function<void(gpuStream_t)>& enqueue, int rounds) {
  gpuStream_t stream = nullptr;
  check(gpuStreamCreateWithFlags(&stream, gpuStreamNonBlocking), "stream");
  const double ms = time_graph(
      stream, [&] { enqueue(stream); }, rounds);
  check(gpuStreamDestroy(stream), "stream");
  return ms;
}

}  // namespace encore::gpu
