// What a plugin claims, checked before the host believes it: counts and sizes within limits, text
// bounded and valid, enumerations known.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "encore/backend.h"
#include "encore/backend_abi.h"
#include "encore/sdk/abi_text.h"
#include "encore/status.h"

namespace encore {

inline constexpr uint64_t kMaxStructBytes = 65536;  // of a table or an array element
inline constexpr uint64_t kMaxOptions = 256;
inline constexpr uint64_t kMaxChoices = 256;
inline constexpr uint64_t kMaxBuckets = 4096;
inline constexpr size_t kMaxStats = 4096;
inline constexpr size_t kMaxTraceEvents = size_t{1} << 20;
inline constexpr int32_t kMaxDevices = 1024;
inline constexpr int64_t kMaxBytes = int64_t{1} << 56;  // of any memory; sums cannot overflow

// Text in a fixed array of a struct that the plugin filled in: never read beyond the array,
// whatever size is claimed.
template <size_t kCapacity>
std::string text_from_array(const char (&array)[kCapacity], uint32_t size) {
  return sdk::valid_utf8({array, std::min<size_t>(size, kCapacity)});
}

// All Errors: kInternal, naming the claim, its value and what was expected.
Result<std::vector<OptionSchema>> read_schema(const encore_backend_table& table);
Result<int32_t> checked_device_count(int32_t count);
Result<DeviceInfo> read_device_info(const encore_device_info& info);
Result<DeviceMemory> read_device_memory(const encore_device_memory& memory);
Result<DeviceLimits> read_device_limits(const encore_device_limits& limits);
Result<ModelInfo> read_model_info(const encore_model_info& info);
Result<KvInfo> read_kv_info(const encore_kv_info& info, const KvOptions& asked);
Result<MemoryPlan> read_memory_plan(const encore_memory_plan& plan);
Result<TraceEvent> read_trace_event(const encore_trace_event& event);
Result<CaptureReport> read_capture_report(const encore_capture_report* report);
// A reason this host does not know is kUnsupported; so is a bucket that makes no sense.
RunnerCheck read_verdict(const encore_runner_verdict& verdict);

}  // namespace encore
