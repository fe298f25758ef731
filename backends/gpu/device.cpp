#include "device.h"

#include <chrono>
#include <thread>
#include <utility>

#include "gpu_status.h"
#include "graph.h"

namespace encore::gpu {
namespace {

bool takes_kv(const ModelSpec& spec, int32_t page_size, DType dtype) {
  const bool page = page_size == 16 || page_size == 32 || page_size == 64;
  const bool element = dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
  return page && element && spec.head_dim % 8 == 0 && spec.head_dim <= 256;
}

}  // namespace

Result<std::unique_ptr<GpuDevice>> GpuDevice::create(const DeviceOptions& options,
                                                     std::unique_ptr<Blas> blas,
                                                     MemoryAccount& account) {
  std::unique_ptr<GpuDevice> device(new GpuDevice(options, account));
  ENCORE_RETURN_IF_ERROR(device->make_current());
  ENCORE_RETURN_IF_ERROR(gpu_status(
      gpuStreamCreateWithFlags(&device->stream_, gpuStreamNonBlocking), "creating a stream"));
  for (gpuEvent_t& event : device->events_) {
    ENCORE_RETURN_IF_ERROR(
        gpu_status(gpuEventCreateWithFlags(&event, gpuEventDisableTiming), "creating an event"));
  }
  device->ops_ =
      std::make_unique<GpuOps>(OpsSettings{device->stream_, options.traits, options.overlap,
                                           options.load_threads, options.tuning_folder},
                               std::move(blas), account);
  return device;
}

GpuDevice::~GpuDevice() {
  static_cast<void>(make_current());
  if (stream_ != nullptr) static_cast<void>(gpuStreamSynchronize(stream_));
  ops_.reset();
  for (gpuEvent_t event : events_) {
    if (event != nullptr) static_cast<void>(gpuEventDestroy(event));
  }
  if (stream_ != nullptr) static_cast<void>(gpuStreamDestroy(stream_));
}

Status GpuDevice::make_current() const {
  return gpu_status(gpuSetDevice(options_.ordinal), "selecting the device");
}

Result<std::unique_ptr<lowering::DeviceMemoryBlock>> GpuDevice::allocate(int64_t bytes,
                                                                         const std::string& name) {
  ENCORE_RETURN_IF_ERROR(make_current());
  return allocate_device(account_, bytes, name);
}

Result<std::unique_ptr<lowering::DeviceMemoryBlock>> GpuDevice::allocate_host(
    int64_t bytes, const std::string& name) {
  ENCORE_RETURN_IF_ERROR(make_current());
  return allocate_page_locked(account_, bytes, name);
}

int64_t GpuDevice::kv_page_bytes(const ModelSpec& spec, int32_t page_size, DType dtype) const {
  return kv_layout(spec, page_size, static_cast<Element>(dtype)).page_bytes();
}

Result<std::shared_ptr<void>> GpuDevice::describe_kv(const ModelSpec& spec, std::byte* pages,
                                                     int32_t num_pages, int32_t page_size,
                                                     DType dtype) {
  if (!takes_kv(spec, page_size, dtype)) {
    return invalid_argument(
        "the device cannot keep a KV cache of page_size " + std::to_string(page_size) + ", dtype " +
        std::string(dtype_name(dtype)) + ", head_dim " + std::to_string(spec.head_dim) +
        "; page_size must be 16, 32 or 64, dtype f32, f16 or bf16, head_dim a multiple of 8 up to "
        "256");
  }
  auto kv = std::make_shared<KvDescription>();
  kv->pages = pages;
  kv->num_pages = num_pages;
  kv->layout = kv_layout(spec, page_size, static_cast<Element>(dtype));
  // Attention multiplies rows that no token has written by zero: they must be numbers.
  ENCORE_RETURN_IF_ERROR(fill(pages, 0, spec.num_layers * kv->layer_bytes()));
  return std::shared_ptr<void>(std::move(kv));
}

Result<int64_t> GpuDevice::reserve_workspace(const ModelSpec& spec,
                                             const lowering::WorkspaceRequest& request,
                                             int64_t* added_bytes) {
  ENCORE_RETURN_IF_ERROR(make_current());
  return ops_->reserve_workspace(spec, request, added_bytes);
}

Status GpuDevice::fill_workspace(uint8_t value) {
  ENCORE_RETURN_IF_ERROR(make_current());
  return ops_->fill_workspace(value);
}

Status GpuDevice::copy_in(std::byte* device, const std::byte* host, int64_t bytes) {
  ENCORE_RETURN_IF_ERROR(make_current());
  return gpu_status(
      gpuMemcpyAsync(device, host, static_cast<size_t>(bytes), gpuMemcpyHostToDevice, stream_),
      "copying to the device");
}

Status GpuDevice::copy_out(std::byte* host, const std::byte* device, int64_t bytes) {
  ENCORE_RETURN_IF_ERROR(make_current());
  return gpu_status(
      gpuMemcpyAsync(host, device, static_cast<size_t>(bytes), gpuMemcpyDeviceToHost, stream_),
      "copying from the device");
}

Status GpuDevice::copy(std::byte* destination, const std::byte* source, int64_t bytes) {
  ENCORE_RETURN_IF_ERROR(make_current());
  return gpu_status(gpuMemcpyAsync(destination, source, static_cast<size_t>(bytes),
                                   gpuMemcpyDeviceToDevice, stream_),
                    "copying on the device");
}

Status GpuDevice::fill(std::byte* device, uint8_t value, int64_t bytes) {
  ENCORE_RETURN_IF_ERROR(make_current());
  return gpu_status(gpuMemsetAsync(device, value, static_cast<size_t>(bytes), stream_),
                    "filling device memory");
}

Status GpuDevice::begin_capture() {
  ENCORE_RETURN_IF_ERROR(make_current());
  // Other threads may allocate and synchronise meanwhile.
  ENCORE_RETURN_IF_ERROR(gpu_status(gpuStreamBeginCapture(stream_, gpuStreamCaptureModeThreadLocal),
                                    "beginning a capture"));
  node_labels_ = {};
  ops_->label_into(&node_labels_);
  return {};
}

Result<std::unique_ptr<lowering::DeviceGraph>> GpuDevice::end_capture() {
  ops_->label_into(nullptr);
  gpuGraph_t graph = nullptr;
  ENCORE_RETURN_IF_ERROR(gpu_status(gpuStreamEndCapture(stream_, &graph), "ending a capture"));
  auto made = GpuGraph::create(graph, stream_, account_);
  static_cast<void>(gpuGraphDestroy(graph));
  if (!made.ok()) return made.status();
  (*made)->set_labels(std::move(node_labels_));
  return std::unique_ptr<lowering::DeviceGraph>(std::move(made).value());
}

Status GpuDevice::launch(lowering::DeviceGraph& graph) {
  ENCORE_RETURN_IF_ERROR(make_current());
  auto& launched = static_cast<GpuGraph&>(graph);
  trace_.launched(launched.labels(), launched.num_nodes());
  return launched.launch();
}

Status GpuDevice::begin_trace() {
  ENCORE_RETURN_IF_ERROR(make_current());
  return trace_.begin(stream_);
}

Result<std::vector<TraceEvent>> GpuDevice::end_trace() {
  ENCORE_RETURN_IF_ERROR(make_current());
  return trace_.end(stream_);
}

Result<uint64_t> GpuDevice::mark() {
  ENCORE_RETURN_IF_ERROR(make_current());
  ENCORE_RETURN_IF_ERROR(
      gpu_status(gpuEventRecord(events_[num_marks_ % kNumEvents], stream_), "recording an event"));
  return num_marks_++;
}

Status GpuDevice::wait(uint64_t mark, int64_t timeout_us) {
  ENCORE_RETURN_IF_ERROR(make_current());
  gpuEvent_t event = events_[mark % kNumEvents];
  // Whoever gives up frees what the work uses: none may be left, if the device works at all.
  const auto ended = [&](gpuError_t error) {
    Status status = gpu_status(error, "waiting for the device");
    if (!status.ok()) {
      static_cast<void>(gpu_status(gpuStreamSynchronize(stream_), "ending a failed wait"));
    }
    return status;
  };
  if (timeout_us < 0) return ended(gpuEventSynchronize(event));
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + std::chrono::microseconds(timeout_us);
  while (true) {
    const gpuError_t error = gpuEventQuery(event);
    if (error != gpuErrorNotReady) return ended(error);
    static_cast<void>(gpuGetLastError());  // not an error, but the run-time keeps it as one
    if (Clock::now() >= deadline) {
      if (ops_->collectives() != nullptr) {
        ENCORE_RETURN_IF_ERROR(ops_->collectives()->health());  // knows more, perhaps
      }
      return deadline_exceeded("the device has not finished its work within " +
                               std::to_string(timeout_us) + " us");
    }
    std::this_thread::yield();
  }
}

}  // namespace encore::gpu
