#include "rocm_blas.h"

#include <utility>
#include <vector>

#include "encore/sdk/host.h"
#include "fallback_blas.h"
#include "hipblaslt.h"
#include "own_blas.h"
#include "rocblas.h"

namespace encore::rocm {
namespace {

using Choices = std::vector<gpu::FallbackBlas::Choice>;

Result<std::unique_ptr<gpu::Blas>> make_rocblas() {
  ENCORE_ASSIGN_OR_RETURN(std::unique_ptr<gpu::Blas> blas, Rocblas::create());
  return blas;
}

// Adds what was made. A library that is not there is passed over, with a line in the log.
// Errors: any other.
Status add(const char* name, const char* missing, Result<std::unique_ptr<gpu::Blas>> made,
           Choices* choices) {
  if (made.ok()) {
    choices->push_back({name, std::move(made).value()});
    return {};
  }
  if (made.status().code() != StatusCode::kUnavailable) return made.status();
  sdk::log(sdk::LogLevel::kInfo, std::string(missing) + ": " + made.status().message());
  return {};
}

void say_own(sdk::LogLevel level, const std::string& reason) {
  sdk::log(level, "matrix products by own kernels: " + reason);
}

Result<std::unique_ptr<gpu::Blas>> make_auto(const gpu::DeviceTraits& device,
                                             const std::filesystem::path& tuning_folder,
                                             BlasCounts& counts) {
  Choices choices;
  ENCORE_RETURN_IF_ERROR(
      add("hipBLASLt", "blas_hipblaslt_missing", make_hipblaslt(tuning_folder), &choices));
  const bool hipblaslt = !choices.empty();
  ENCORE_RETURN_IF_ERROR(add("rocBLAS", "blas_rocblas_missing", make_rocblas(), &choices));
  if (choices.empty()) {
    ++counts.own;
    say_own(sdk::LogLevel::kWarn, "blas_libraries_missing");
    return std::unique_ptr<gpu::Blas>(std::make_unique<gpu::OwnBlas>(device));
  }
  ++(hipblaslt ? counts.hipblaslt : counts.rocblas);
  sdk::log(sdk::LogLevel::kInfo, "matrix products by " + choices.front().name +
                                     (hipblaslt ? ": blas_hipblaslt" : ": blas_rocblas"));
  choices.push_back({"own kernels", std::make_unique<gpu::OwnBlas>(device)});
  return std::unique_ptr<gpu::Blas>(
      std::make_unique<gpu::FallbackBlas>(std::move(choices), counts.fallbacks));
}

}  // namespace

Result<BlasChoice> parse_blas(std::string_view text) {
  if (text == "auto") return BlasChoice::kAuto;
  if (text == "hipblaslt") return BlasChoice::kHipblaslt;
  if (text == "rocblas") return BlasChoice::kRocblas;
  if (text == "own") return BlasChoice::kOwn;
  return invalid_argument("backend.options.blas is '" + std::string(text) +
                          "'; it must be auto, hipblaslt, rocblas or own");
}

Result<std::unique_ptr<gpu::Blas>> make_rocm_blas(BlasChoice choice,
                                                  const gpu::DeviceTraits& device,
                                                  const std::filesystem::path& tuning_folder,
                                                  BlasCounts& counts) {
  if (choice == BlasChoice::kAuto) return make_auto(device, tuning_folder, counts);
  if (choice == BlasChoice::kOwn) {
    ++counts.own;
    say_own(sdk::LogLevel::kInfo, "blas_own: backend.options.blas says so");
    return std::unique_ptr<gpu::Blas>(std::make_unique<gpu::OwnBlas>(device));
  }
  const bool hipblaslt = choice == BlasChoice::kHipblaslt;
  ENCORE_ASSIGN_OR_RETURN(std::unique_ptr<gpu::Blas> blas,
                          hipblaslt ? make_hipblaslt(tuning_folder) : make_rocblas());
  ++(hipblaslt ? counts.hipblaslt : counts.rocblas);
  sdk::log(sdk::LogLevel::kInfo, hipblaslt ? "matrix products by hipBLASLt: blas_hipblaslt"
                                           : "matrix products by rocBLAS: blas_rocblas");
  return blas;
}

}  // namespace encore::rocm
