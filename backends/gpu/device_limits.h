// What a device can do at best, measured.
#pragma once

#include <cstdint>

#include "blas.h"
#include "encore/backend.h"
#include "encore/status.h"
#include "memory.h"

namespace encore::gpu {

// On the current device. Takes and frees some gigabytes. Errors: kOutOfMemory.
Result<DeviceLimits> measure_limits(Blas& blas, int32_t num_processors, MemoryAccount& account);

}  // namespace encore::gpu
