// Devices and errors.
#include <algorithm>
#include <cstdio>

#include "call.h"
#include "capture.h"
#include "device.h"
#include "memory.h"
#include "settings.h"

using encore::standin::call;
using encore::standin::CallKind;
using encore::standin::Lock;

namespace standin = encore::standin;

hipError_t hipInit(unsigned flags) {
  return call("hipInit", CallKind::kInquiry,
              [&](Lock&) { return flags == 0 ? hipSuccess : hipErrorInvalidValue; });
}

hipError_t hipDriverGetVersion(int* version) {
  return call("hipDriverGetVersion", CallKind::kInquiry, [&](Lock&) {
    *version = HIP_VERSION;
    return hipSuccess;
  });
}

hipError_t hipRuntimeGetVersion(int* version) {
  return call("hipRuntimeGetVersion", CallKind::kInquiry, [&](Lock&) {
    *version = HIP_VERSION;
    return hipSuccess;
  });
}

hipError_t hipGetDeviceCount(int* count) {
  return call("hipGetDeviceCount", CallKind::kInquiry, [&](Lock&) {
    *count = standin::settings().num_devices;
    return *count > 0 ? hipSuccess : hipErrorNoDevice;
  });
}

hipError_t hipGetDevice(int* device) {
  return call("hipGetDevice", CallKind::kInquiry, [&](Lock&) {
    *device = standin::current_device();
    return hipSuccess;
  });
}

hipError_t hipSetDevice(int device) {
  return call("hipSetDevice", CallKind::kInquiry, [&](Lock&) {
    if (!standin::has_device(device)) return hipErrorInvalidDevice;
    standin::set_current_device(device);
    return hipSuccess;
  });
}

hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int device) {
  return call("hipDeviceGetAttribute", CallKind::kInquiry, [&](Lock&) {
    if (!standin::has_device(device)) return hipErrorInvalidDevice;
    return standin::attribute_of(attribute, value);
  });
}

hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int device) {
  return call("hipGetDeviceProperties", CallKind::kInquiry, [&](Lock&) {
    if (!standin::has_device(device)) return hipErrorInvalidDevice;
    *properties = standin::properties_of(device);
    return hipSuccess;
  });
}

hipError_t hipDeviceGetPCIBusId(char* text, int length, int device) {
  return call("hipDeviceGetPCIBusId", CallKind::kInquiry, [&](Lock&) {
    if (!standin::has_device(device)) return hipErrorInvalidDevice;
    const std::string id = standin::bus_id_of(device);
    if (length <= static_cast<int>(id.size())) return hipErrorInvalidValue;
    std::snprintf(text, static_cast<size_t>(length), "%s", id.c_str());
    return hipSuccess;
  });
}

hipError_t hipDeviceCanAccessPeer(int* can, int device, int peer) {
  return call("hipDeviceCanAccessPeer", CallKind::kInquiry, [&](Lock&) {
    if (!standin::has_device(device) || !standin::has_device(peer)) return hipErrorInvalidDevice;
    *can = device != peer ? 1 : 0;
    return hipSuccess;
  });
}

hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  return call("hipDeviceEnablePeerAccess", CallKind::kWork, [&](Lock&) {
    const int device = standin::current_device();
    if (!standin::has_device(peer) || peer == device) return hipErrorInvalidDevice;
    if (flags != 0) return hipErrorInvalidValue;
    return standin::enable_access(device, peer) ? hipSuccess : hipErrorPeerAccessAlreadyEnabled;
  });
}

hipError_t hipDeviceSynchronize() {
  return call("hipDeviceSynchronize", CallKind::kWork, [](Lock& lock) {
    const int device = standin::current_device();
    const hipError_t error = standin::forbid_waiting_for_device(device);
    if (error != hipSuccess) return error;
    standin::drain_device(lock, device);
    return standin::loss_of(device);
  });
}

hipError_t hipMemGetInfo(size_t* free, size_t* total) {
  return call("hipMemGetInfo", CallKind::kWork, [&](Lock&) {
    *free = standin::free_bytes(standin::current_device());
    *total = standin::settings().memory_bytes;
    return hipSuccess;
  });
}

// ---- Errors. These do not fail, and so are no calls. ----

hipError_t hipGetLastError() { return standin::take_last_error(); }
hipError_t hipPeekAtLastError() { return standin::last_error(); }

namespace {

struct ErrorText {
  hipError_t error;
  const char* name;
  const char* text;
};

#define ENCORE_ERROR(name, text) \
  ErrorText { name, #name, text }
constexpr ErrorText kErrors[] = {
    ENCORE_ERROR(hipSuccess, "no error"),
    ENCORE_ERROR(hipErrorInvalidValue, "invalid argument"),
    ENCORE_ERROR(hipErrorOutOfMemory, "out of memory"),
    ENCORE_ERROR(hipErrorNotInitialized, "initialization error"),
    ENCORE_ERROR(hipErrorInvalidConfiguration, "invalid configuration argument"),
    ENCORE_ERROR(hipErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    ENCORE_ERROR(hipErrorInvalidDeviceFunction, "invalid device function"),
    ENCORE_ERROR(hipErrorNoDevice, "no ROCm-capable device is detected"),
    ENCORE_ERROR(hipErrorInvalidDevice, "invalid device ordinal"),
    ENCORE_ERROR(hipErrorNoBinaryForGpu,
                 "no kernel image is available for execution on the device"),
    ENCORE_ERROR(hipErrorECCNotCorrectable, "uncorrectable ECC error encountered"),
    ENCORE_ERROR(hipErrorInvalidHandle, "invalid resource handle"),
    ENCORE_ERROR(hipErrorIllegalState, "the operation cannot be performed in the present state"),
    ENCORE_ERROR(hipErrorNotReady, "device not ready"),
    ENCORE_ERROR(hipErrorIllegalAddress, "an illegal memory access was encountered"),
    ENCORE_ERROR(hipErrorLaunchOutOfResources, "too many resources requested for launch"),
    ENCORE_ERROR(hipErrorLaunchTimeOut, "the launch timed out and was terminated"),
    ENCORE_ERROR(hipErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    ENCORE_ERROR(hipErrorAssert, "device-side assert triggered"),
    ENCORE_ERROR(hipErrorLaunchFailure, "unspecified launch failure"),
    ENCORE_ERROR(hipErrorNotSupported, "operation not supported"),
    ENCORE_ERROR(hipErrorStreamCaptureUnsupported,
                 "operation not permitted when stream is capturing"),
    ENCORE_ERROR(hipErrorStreamCaptureInvalidated,
                 "operation failed due to a previous error during capture"),
    ENCORE_ERROR(hipErrorStreamCaptureMerge,
                 "operation would result in a merge of separate capture sequences"),
    ENCORE_ERROR(hipErrorStreamCaptureUnmatched, "capture was not ended in the same stream"),
    ENCORE_ERROR(hipErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    ENCORE_ERROR(hipErrorStreamCaptureIsolation,
                 "dependency created on uncaptured work in another stream"),
    ENCORE_ERROR(hipErrorStreamCaptureImplicit,
                 "operation would make the legacy stream depend on a capturing blocking stream"),
    ENCORE_ERROR(hipErrorCapturedEvent,
                 "operation not permitted on an event last recorded in a capturing stream"),
    ENCORE_ERROR(hipErrorStreamCaptureWrongThread,
                 "attempt to terminate a thread-local capture sequence from another thread"),
    ENCORE_ERROR(hipErrorUnknown, "unknown error"),
};
#undef ENCORE_ERROR
constexpr ErrorText kOther{hipErrorTbd, "hipErrorTbd", "an error that the stand-in does not know"};

const ErrorText& text_of(hipError_t error) {
  const auto* found = std::find_if(std::begin(kErrors), std::end(kErrors),
                                   [&](const ErrorText& known) { return known.error == error; });
  return found == std::end(kErrors) ? kOther : *found;
}

}  // namespace

const char* hipGetErrorName(hipError_t error) { return text_of(error).name; }
const char* hipGetErrorString(hipError_t error) { return text_of(error).text; }
