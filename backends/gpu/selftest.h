// A quick known-answer run of the device's kernels.
#pragma once

#include "blas.h"
#include "encore/status.h"
#include "kernels/gpu/device_traits.h"
#include "memory.h"

namespace encore::gpu {

// On the current device: a norm and a product, checked against the host's arithmetic.
// Errors: kInternal naming what was wrong.
Status selftest(Blas& blas, const DeviceTraits& device, MemoryAccount& account);

}  // namespace encore::gpu
