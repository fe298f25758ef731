// hipBLASLt, opened at run time: nothing links against it.
#pragma once

#include <memory>
#include <string>

#include "encore/status.h"
#include "hipblaslt_types.h"

namespace encore::rocm {

// The functions of hipBLASLt that Encore calls.
struct HipblasltFunctions {
  decltype(&hipblasLtCreate) create = nullptr;
  decltype(&hipblasLtDestroy) destroy = nullptr;
  decltype(&hipblasLtGetVersion) version = nullptr;
  decltype(&hipblasLtMatmul) matmul = nullptr;
  decltype(&hipblasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&hipblasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&hipblasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&hipblasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&hipblasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&hipblasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&hipblasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&hipblasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&hipblasLtMatrixLayoutDestroy) layout_destroy = nullptr;
};

// One of hipBLASLt's own objects, destroyed with this.
template <typename T>
struct HipblasltDestroy {
  hipblasStatus_t (*destroy)(T*) = nullptr;
  void operator()(T* object) const { static_cast<void>(destroy(object)); }
};
template <typename T>
using HipblasltObject = std::unique_ptr<T, HipblasltDestroy<T>>;

// Opens the library that goes with the HIP run-time of this build, where the loader finds it, or in
// $ROCM_PATH and /opt/rocm. It stays open for the life of the process.
// Errors: kUnavailable, naming what was tried and why each failed.
Result<HipblasltFunctions> open_hipblaslt();

// Whether a library of this version, as hipblasLtGetVersion() gives it, has the interface that this
// build declares: libraries of HIP 5 and 6 have one file name.
// Errors: kUnavailable, naming the version.
Status check_hipblaslt_version(int version);

// `what` failed, in the words of a log line. kUnimplemented: of a product or an algorithm that the
// library does not take.
Status hipblaslt_status(hipblasStatus_t status, const std::string& what);

}  // namespace encore::rocm
