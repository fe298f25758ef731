// A call of the run-time from outside: one at a time, counted, failing when a test says so, refused
// by a device that is lost, its error kept for hipGetLastError().
#pragma once

#include <hip/hip_runtime_api.h>

#include <mutex>

#include "stream.h"

namespace encore::standin {

enum class CallKind {
  kWork,     // needs a device that works
  kRelease,  // returns the device's error too, but what is released is
  kInquiry,  // answers on any device
};

std::mutex& run_time_mutex();

// The error with which a call begins: planned, or the current device's.
hipError_t first_error(const char* name, CallKind kind);
// The thread's last error, if it is one; returns it.
hipError_t remembered(hipError_t error);
hipError_t last_error();
hipError_t take_last_error();

template <typename Body>
hipError_t call(const char* name, CallKind kind, Body body) {
  Lock lock(run_time_mutex());
  const hipError_t error = first_error(name, kind);
  if (error != hipSuccess && kind != CallKind::kRelease) return remembered(error);
  const hipError_t found = body(lock);
  return remembered(error != hipSuccess ? error : found);
}

}  // namespace encore::standin
