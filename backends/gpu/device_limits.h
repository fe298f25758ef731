// What a device can do at best, measured.
#pragma once

#include "blas.h"
#include "encore/backend.h"
#include "encore/status.h"
#include "kernels/gpu/device_traits.h"
#include "memory.h"

namespace encore::gpu {

// On the current device. Takes and frees some gigabytes. Errors: kOutOfMemory.
Result<DeviceLimits> measure_limits(Blas& blas, const DeviceTraits& device, MemoryAccount& account);

}  // namespace encore::gpu
