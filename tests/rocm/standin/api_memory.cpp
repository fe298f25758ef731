// Memory: allocations, copies and fills.
#include "call.h"
#include "capture.h"
#include "device.h"
#include "memory.h"
#include "transfer.h"

using encore::standin::call;
using encore::standin::CallKind;
using encore::standin::Kind;
using encore::standin::Lock;
using encore::standin::Operation;
using encore::standin::Stream;

namespace standin = encore::standin;

namespace {

hipError_t allocate(const char* name, Kind kind, void** data, size_t bytes) {
  return call(name, CallKind::kWork, [&](Lock&) {
    if (const hipError_t error = standin::forbid_unsafe_call(); error != hipSuccess) return error;
    if (data == nullptr) return hipErrorInvalidValue;
    return standin::allocate(kind, standin::current_device(), bytes, data);
  });
}

// HIP waits for the device first.
hipError_t release(const char* name, Kind kind, void* data) {
  return call(name, CallKind::kRelease, [&](Lock& lock) {
    if (const hipError_t error = standin::forbid_unsafe_call(); error != hipSuccess) return error;
    if (data == nullptr) return hipSuccess;
    standin::drain_device(lock, standin::current_device());
    return standin::release(kind, data);
  });
}

// What `make` makes goes into the stream.
template <typename Make>
hipError_t enqueue(const char* name, hipStream_t handle, Make make) {
  return call(name, CallKind::kWork, [&](Lock&) {
    Stream* stream = standin::find_stream(handle);
    if (stream == nullptr) return hipErrorInvalidHandle;
    std::shared_ptr<Operation> operation;
    const hipError_t error = make(&operation);
    return error == hipSuccess ? standin::enqueue(*stream, std::move(operation)) : error;
  });
}

// The same in the null stream, and then waits.
template <typename Make>
hipError_t complete(const char* name, Make make) {
  return call(name, CallKind::kWork, [&](Lock& lock) {
    if (const hipError_t error = standin::forbid_unsafe_call(); error != hipSuccess) return error;
    Stream& stream = *standin::find_stream(nullptr);
    std::shared_ptr<Operation> operation;
    hipError_t error = make(&operation);
    if (error == hipSuccess) error = standin::enqueue(stream, std::move(operation));
    if (error != hipSuccess) return error;
    standin::drain(lock, stream);
    return standin::loss_of(stream.device);
  });
}

}  // namespace

hipError_t hipMalloc(void** data, size_t bytes) {
  return allocate("hipMalloc", Kind::kDevice, data, bytes);
}
hipError_t hipExtMallocWithFlags(void** data, size_t bytes, unsigned) {
  return allocate("hipExtMallocWithFlags", Kind::kDevice, data, bytes);
}
hipError_t hipHostMalloc(void** data, size_t bytes, unsigned) {
  return allocate("hipHostMalloc", Kind::kPageLocked, data, bytes);
}
hipError_t hipHostAlloc(void** data, size_t bytes, unsigned) {
  return allocate("hipHostAlloc", Kind::kPageLocked, data, bytes);
}
hipError_t hipMallocHost(void** data, size_t bytes) {
  return allocate("hipMallocHost", Kind::kPageLocked, data, bytes);
}

hipError_t hipFree(void* data) { return release("hipFree", Kind::kDevice, data); }
hipError_t hipHostFree(void* data) { return release("hipHostFree", Kind::kPageLocked, data); }
hipError_t hipFreeHost(void* data) { return release("hipFreeHost", Kind::kPageLocked, data); }

hipError_t hipMallocAsync(void** data, size_t bytes, hipStream_t handle) {
  return call("hipMallocAsync", CallKind::kWork, [&](Lock&) {
    const Stream* stream = standin::find_stream(handle);
    if (stream == nullptr) return hipErrorInvalidHandle;
    if (stream->capture != nullptr) return hipErrorStreamCaptureUnsupported;
    return standin::allocate(Kind::kDevice, stream->device, bytes, data);
  });
}

hipError_t hipFreeAsync(void* data, hipStream_t handle) {
  return call("hipFreeAsync", CallKind::kRelease, [&](Lock&) {
    Stream* stream = standin::find_stream(handle);
    if (stream == nullptr) return hipErrorInvalidHandle;
    if (stream->capture != nullptr) return hipErrorStreamCaptureUnsupported;
    if (standin::loss_of(stream->device) != hipSuccess) {
      return standin::release(Kind::kDevice, data);
    }
    return standin::enqueue(*stream, standin::make_free(data));
  });
}

hipError_t hipMemcpyAsync(void* to, const void* from, size_t bytes, hipMemcpyKind kind,
                          hipStream_t stream) {
  return enqueue("hipMemcpyAsync", stream, [&](std::shared_ptr<Operation>* copy) {
    return standin::make_copy(to, from, bytes, kind, copy);
  });
}

hipError_t hipMemcpy(void* to, const void* from, size_t bytes, hipMemcpyKind kind) {
  return complete("hipMemcpy", [&](std::shared_ptr<Operation>* copy) {
    return standin::make_copy(to, from, bytes, kind, copy);
  });
}

hipError_t hipMemsetAsync(void* to, int byte, size_t bytes, hipStream_t stream) {
  return enqueue("hipMemsetAsync", stream, [&](std::shared_ptr<Operation>* fill) {
    return standin::make_fill(to, byte, bytes, fill);
  });
}

hipError_t hipMemset(void* to, int byte, size_t bytes) {
  return complete("hipMemset", [&](std::shared_ptr<Operation>* fill) {
    return standin::make_fill(to, byte, bytes, fill);
  });
}
