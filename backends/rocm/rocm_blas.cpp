#include "rocm_blas.h"

#include <utility>

#include "encore/sdk/host.h"
#include "own_blas.h"
#include "rocblas.h"

namespace encore::rocm {
namespace {

std::unique_ptr<gpu::Blas> own(const gpu::DeviceTraits& device, BlasCounts& counts,
                               sdk::LogLevel level, const std::string& reason) {
  ++counts.own;
  sdk::log(level, "matrix products by own kernels: " + reason);
  return std::make_unique<gpu::OwnBlas>(device);
}

}  // namespace

Result<BlasChoice> parse_blas(std::string_view text) {
  if (text == "auto") return BlasChoice::kAuto;
  if (text == "rocblas") return BlasChoice::kRocblas;
  if (text == "own") return BlasChoice::kOwn;
  return invalid_argument("backend.options.blas is '" + std::string(text) +
                          "'; it must be auto, rocblas or own");
}

Result<std::unique_ptr<gpu::Blas>> make_rocm_blas(BlasChoice choice,
                                                  const gpu::DeviceTraits& device,
                                                  BlasCounts& counts) {
  if (choice == BlasChoice::kOwn) {
    return own(device, counts, sdk::LogLevel::kInfo, "blas_own: backend.options.blas says so");
  }
  Result<std::unique_ptr<Rocblas>> made = Rocblas::create();
  if (made.ok()) {
    ++counts.rocblas;
    sdk::log(sdk::LogLevel::kInfo, "matrix products by rocBLAS: blas_rocblas");
    return std::unique_ptr<gpu::Blas>(std::move(made).value());
  }
  const bool missing = made.status().code() == StatusCode::kUnavailable;
  if (choice == BlasChoice::kRocblas || !missing) return made.status();
  return own(device, counts, sdk::LogLevel::kWarn,
             "blas_rocblas_missing: " + made.status().message());
}

}  // namespace encore::rocm
