// Times what a program enqueues, as one CUDA graph.
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
  if (error == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(static_cast<cudaError_t>(error)));
  std::exit(1);
}

// Median milliseconds of `rounds` replays of one graph that holds `enqueue`, after two more.
inline double time_graph(const std::function<void(cudaStream_t)>& enqueue, int rounds) {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  enqueue(stream);
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = -2; i < rounds; ++i) {
    float ms = 0.0F;
    check(cudaEventRecord(begin, stream), "record");
    check(cudaGraphLaunch(executable, stream), "launch");
    check(cudaEventRecord(end, stream), "record");
    check(cudaEventSynchronize(end), "run");
    check(cudaEventElapsedTime(&ms, begin, end), "elapsed");
    if (i >= 0) times.push_back(ms);
  }
  check(cudaEventDestroy(begin), "event");
  check(cudaEventDestroy(end), "event");
  check(cudaGraphExecDestroy(executable), "graph");
  check(cudaGraphDestroy(graph), "graph");
  check(cudaStreamDestroy(stream), "stream");
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace encore::gpu
