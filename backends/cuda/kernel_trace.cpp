#include "kernel_trace.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "cupti_library.h"
#include "kernel_name.h"

namespace encore::cuda {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;  // a few thousand records
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};

// The record types of CUDA 12, which later ones only append to.
using KernelRecord = CUpti_ActivityKernel9;
using CopyRecord = CUpti_ActivityMemcpy5;
using FillRecord = CUpti_ActivityMemset4;

struct Activity {
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
  std::pair<uint32_t, uint32_t> stream;  // device, stream
  bool in_graph = false;
  std::string name;
};

std::string copy_name(uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "copy in";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "copy out";
    default:
      return "copy";
  }
}

template <typename Record>
Activity activity_of(const Record& record, std::string name) {
  return {record.start,
          record.end,
          {record.deviceId, record.streamId},
          record.graphNodeId != 0,
          std::move(name)};
}

std::optional<Activity> read_record(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = *reinterpret_cast<const KernelRecord*>(record);
      return activity_of(kernel,
                         kernel.name == nullptr ? "kernel" : short_kernel_name(kernel.name));
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = *reinterpret_cast<const CopyRecord*>(record);
      return activity_of(copy, copy_name(copy.copyKind));
    }
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return activity_of(*reinterpret_cast<const FillRecord*>(record), "fill");
    default:
      return std::nullopt;
  }
}

std::vector<gpu::TracedWork> work_of(std::vector<Activity> activities) {
  std::sort(activities.begin(), activities.end(), [](const Activity& a, const Activity& b) {
    return std::pair(a.start_ns, a.end_ns) < std::pair(b.start_ns, b.end_ns);
  });
  std::map<std::pair<uint32_t, uint32_t>, int32_t> lanes;
  std::vector<gpu::TracedWork> work;
  for (Activity& activity : activities) {
    const auto lane = lanes.try_emplace(activity.stream, static_cast<int32_t>(lanes.size())).first;
    const uint64_t after_ns = activity.start_ns - activities.front().start_ns;
    const uint64_t taken_ns = activity.end_ns - activity.start_ns;
    work.push_back({{std::move(activity.name), static_cast<double>(after_ns) / 1e3,
                     static_cast<double>(taken_ns) / 1e3, lane->second},
                    activity.in_graph});
  }
  return work;
}

class KernelTrace final : public gpu::Tracer {
 public:
  Status begin() override;
  Result<std::vector<gpu::TracedWork>> end() override;

  // Reads a buffer that CUPTI hands back, from whichever thread.
  void read(uint8_t* buffer, size_t valid_bytes);

 private:
  Status open();
  Status enable();
  void disable();
  std::vector<Activity> finish();

  // Of whoever traces; changes before CUPTI calls back for the first time only.
  std::optional<Result<CuptiFunctions>> cupti_;  // empty until the first trace
  // Not held in calls of CUPTI, which may call back.
  std::mutex mutex_;
  bool tracing_ = false;
  std::vector<Activity> activities_;
};

// Never destroyed: CUPTI may hand back buffers while the process ends.
KernelTrace& the_trace() {
  static auto* const trace = new KernelTrace;
  return *trace;
}

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(std::malloc(kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  the_trace().read(buffer, valid_bytes);
  std::free(buffer);
}

Status KernelTrace::open() {
  if (cupti_.has_value()) return cupti_->status();
  cupti_ = open_cupti();
  if (!cupti_->ok()) return cupti_->status();
  Status registered =
      cupti_status(**cupti_, (*cupti_)->register_callbacks(give_buffer, take_buffer), "tracing");
  if (!registered.ok()) cupti_ = registered;
  return registered;
}

Status KernelTrace::enable() {
  ENCORE_RETURN_IF_ERROR(open());
  for (const CUpti_ActivityKind kind : kKinds) {
    Status enabled = cupti_status(**cupti_, (*cupti_)->enable(kind), "tracing kernels");
    if (enabled.ok()) continue;
    disable();
    return enabled;
  }
  return {};
}

void KernelTrace::disable() {
  for (const CUpti_ActivityKind kind : kKinds) static_cast<void>((*cupti_)->disable(kind));
}

std::vector<Activity> KernelTrace::finish() {
  const std::scoped_lock lock(mutex_);
  tracing_ = false;
  return std::exchange(activities_, {});
}

Status KernelTrace::begin() {
  {
    const std::scoped_lock lock(mutex_);
    if (tracing_) return failed_precondition("another runner's step is being traced");
    tracing_ = true;
  }
  Status enabled = enable();
  if (!enabled.ok()) finish();
  return enabled;
}

void KernelTrace::read(uint8_t* buffer, size_t valid_bytes) {
  const std::scoped_lock lock(mutex_);
  if (!tracing_) return;
  CUpti_Activity* record = nullptr;
  while ((*cupti_)->next_record(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    std::optional<Activity> activity = read_record(record);
    // Zero stands for a time that could not be had, or an end that has not come.
    if (activity && activity->start_ns != 0 && activity->end_ns >= activity->start_ns) {
      activities_.push_back(std::move(*activity));
    }
  }
}

Result<std::vector<gpu::TracedWork>> KernelTrace::end() {
  const Status flushed = cupti_status(
      **cupti_, (*cupti_)->flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "reading a trace");
  disable();
  std::vector<Activity> activities = finish();
  ENCORE_RETURN_IF_ERROR(flushed);
  return work_of(std::move(activities));
}

}  // namespace

gpu::Tracer& kernel_trace() { return the_trace(); }

}  // namespace encore::cuda
