// Which matrix products the ROCm backend runs: a library of AMD's, or our own.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "blas.h"
#include "encore/status.h"
#include "kernels/gpu/device_traits.h"

namespace encore::rocm {

enum class BlasChoice { kAuto, kHipblaslt, kRocblas, kOwn };

// "auto", "hipblaslt", "rocblas" or "own". Errors: kInvalidArgument naming them.
Result<BlasChoice> parse_blas(std::string_view text);

// For stats(): how often each was taken, and how many shapes of product went on to another than
// that.
struct BlasCounts {
  std::atomic<int64_t> hipblaslt = 0;
  std::atomic<int64_t> rocblas = 0;
  std::atomic<int64_t> own = 0;
  std::atomic<int64_t> fallbacks = 0;
};

// For the current device. kAuto takes the first of hipBLASLt, rocBLAS and our own that is there; a
// shape of product that it does not have goes to the next (FallbackBlas). Logs which serves, and
// why not those before it. hipBLASLt keeps what it times in `tuning_folder`, unless that is empty.
// `counts` outlives what is made.
// Errors: kUnavailable if a library was named and cannot be opened or does not serve the device.
Result<std::unique_ptr<gpu::Blas>> make_rocm_blas(BlasChoice choice,
                                                  const gpu::DeviceTraits& device,
                                                  const std::filesystem::path& tuning_folder,
                                                  BlasCounts& counts);

}  // namespace encore::rocm
