// Which matrix products the ROCm backend runs: a library of AMD's, or our own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "blas.h"
#include "encore/status.h"
#include "kernels/gpu/device_traits.h"

namespace encore::rocm {

enum class BlasChoice { kAuto, kRocblas, kOwn };

// "auto", "rocblas" or "own". Errors: kInvalidArgument naming the three.
Result<BlasChoice> parse_blas(std::string_view text);

// How often each was made, for stats().
struct BlasCounts {
  std::atomic<int64_t> rocblas = 0;
  std::atomic<int64_t> own = 0;
};

// For the current device. kAuto takes rocBLAS, and our own where rocBLAS cannot be opened. Logs
// which serves, and why not the other.
// Errors: kUnavailable if rocBLAS was named and cannot be opened.
Result<std::unique_ptr<gpu::Blas>> make_rocm_blas(BlasChoice choice,
                                                  const gpu::DeviceTraits& device,
                                                  BlasCounts& counts);

}  // namespace encore::rocm
