// Reads device memory and does nothing else: what bandwidth a plain read reaches.
#pragma once

#include <cstdint>

#include "kernels/gpu/launch.h"

namespace encore::gpu {

// Reads `bytes` from `data` (a multiple of 16, aligned to 16) once, with `num_processors` full
// multiprocessors. Writes one word to `sink` if the words read add up to zero, so that no read is
// optimised away.
LaunchError read_memory(const void* data, int64_t bytes, int32_t num_processors, uint32_t* sink,
                        const Launch& launch);

}  // namespace encore::gpu
