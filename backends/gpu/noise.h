// Memory full of random numbers, to time on: matrix units take less power, and so run faster, on
// numbers that are all alike.
#pragma once

#include <cstddef>
#include <cstdint>

#include "encore/status.h"
#include "vendor.h"

namespace encore::gpu {

// Fills device memory with bf16 numbers from -1 to 1. Waits for the stream.
Status fill_with_noise(std::byte* data, int64_t bytes, gpuStream_t stream);

}  // namespace encore::gpu
