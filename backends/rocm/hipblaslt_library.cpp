#include "hipblaslt_library.h"

#include "rocm_folder.h"

namespace encore::rocm {
namespace {

// A process holds one HIP run-time: a library made for another major version brings a second.
#if HIP_VERSION_MAJOR <= 6
constexpr const char* kNames[] = {"libhipblaslt.so.0"};
#else
constexpr const char* kNames[] = {"libhipblaslt.so.1"};
#endif

// Fills the table.
void find_all(gpu::Symbols& symbols, HipblasltFunctions& functions) {
  symbols.find("hipblasLtCreate", &functions.create);
  symbols.find("hipblasLtDestroy", &functions.destroy);
  symbols.find("hipblasLtGetVersion", &functions.version);
  symbols.find("hipblasLtMatmul", &functions.matmul);
  symbols.find("hipblasLtMatmulAlgoGetHeuristic", &functions.heuristic);
  symbols.find("hipblasLtMatmulDescCreate", &functions.desc_create);
  symbols.find("hipblasLtMatmulDescDestroy", &functions.desc_destroy);
  symbols.find("hipblasLtMatmulDescSetAttribute", &functions.desc_set);
  symbols.find("hipblasLtMatmulPreferenceCreate", &functions.preference_create);
  symbols.find("hipblasLtMatmulPreferenceDestroy", &functions.preference_destroy);
  symbols.find("hipblasLtMatmulPreferenceSetAttribute", &functions.preference_set);
  symbols.find("hipblasLtMatrixLayoutCreate", &functions.layout_create);
  symbols.find("hipblasLtMatrixLayoutDestroy", &functions.layout_destroy);
}

}  // namespace

Result<HipblasltFunctions> open_hipblaslt() {
  return gpu::open_functions<HipblasltFunctions>(
      gpu::library_candidates(kNames, kRocmFolder, {"/lib/", "/lib64/"}), find_all,
      "hipBLASLt cannot be opened; install it, or name its folder in LD_LIBRARY_PATH or the ROCm "
      "folder in ROCM_PATH.");
}

// Major * 100,000 + minor * 100 + patch: 0.3 came with ROCm 5.7, 0.6 with 6.0, 1.0 with 7.0.
Status check_hipblaslt_version(int version) {
#if HIP_VERSION_MAJOR == 5
  constexpr int kFirst = 300;
  constexpr int kEnd = 400;
#elif HIP_VERSION_MAJOR == 6
  constexpr int kFirst = 600;
  constexpr int kEnd = 100'000;
#else
  constexpr int kFirst = 100'000;
  constexpr int kEnd = 200'000;
#endif
  if (version >= kFirst && version < kEnd) return {};
  const auto words = [](int number) {
    return std::to_string(number / 100'000) + "." + std::to_string(number / 100 % 1000);
  };
  return unavailable("hipBLASLt is of version " + words(version) + "; this build is for versions " +
                     words(kFirst) + " up to, not including, " + words(kEnd));
}

Status hipblaslt_status(hipblasStatus_t status, const std::string& what) {
  if (status == HIPBLAS_STATUS_SUCCESS) return {};
  const std::string message = what + ": hipBLASLt status " + std::to_string(status);
  switch (status) {
    case HIPBLAS_STATUS_ALLOC_FAILED:
      return out_of_memory(message);
    case HIPBLAS_STATUS_NOT_SUPPORTED:
    case HIPBLAS_STATUS_ARCH_MISMATCH:
    case HIPBLAS_STATUS_INVALID_VALUE:  // of an algorithm that does not take the shape
      return unimplemented(message);
    default:
      return internal_error(message);
  }
}

}  // namespace encore::rocm
