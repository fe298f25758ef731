// The devices, what they say of themselves, and whether they are lost.
#pragma once

#include <hip/hip_runtime_api.h>

#include <string>

namespace encore::standin {

struct Architecture {
  const char* name;     // "gfx90a", as in a code object's target
  const char* listed;   // "gfx90a:sramecc+:xnack-", as the device lists it
  const char* product;  // "AMD Instinct MI210"
  int major;
  int minor;
  int lanes;  // of a wavefront
};

// Of all devices. Ends the process if ENCORE_STANDIN_ARCH names one that is not known.
const Architecture& architecture();

inline constexpr size_t kLocalBytes = size_t{64} << 10;  // of a work-group
inline constexpr int kMaxThreads = 1024;                 // of a work-group

bool has_device(int device);

// The calling thread's device.
int current_device();
void set_current_device(int device);

// hipSuccess, or the error that the device has returned since it was lost.
hipError_t loss_of(int device);
void lose(int device, hipError_t error);
// All devices work again. For tests.
void revive();
// Whether a device that fails with this code is lost.
bool loses_device(hipError_t error);

// Errors: hipErrorInvalidValue for attributes that the stand-in does not know.
hipError_t attribute_of(hipDeviceAttribute_t attribute, int* value);
hipDeviceProp_t properties_of(int device);
std::string bus_id_of(int device);  // "0000:03:00.0"

// Whether `device` may use the memory of `peer`. Each is set once.
bool can_access(int device, int peer);
bool enable_access(int device, int peer);  // false: it already was

}  // namespace encore::standin
