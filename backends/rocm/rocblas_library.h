// rocBLAS, opened at run time: nothing links against it.
#pragma once

#include <string>

#include "encore/status.h"
#include "rocblas_types.h"

namespace encore::rocm {

// The functions of rocBLAS that Encore calls.
struct RocblasFunctions {
  decltype(&rocblas_create_handle) create = nullptr;
  decltype(&rocblas_destroy_handle) destroy = nullptr;
  decltype(&rocblas_gemm_ex) multiply = nullptr;
  decltype(&rocblas_get_version_string) version = nullptr;
  decltype(&rocblas_set_atomics_mode) set_atomics_mode = nullptr;
  decltype(&rocblas_set_stream) set_stream = nullptr;
  decltype(&rocblas_set_workspace) set_workspace = nullptr;
  decltype(&rocblas_status_to_string) status_text = nullptr;
};

// Opens the library that goes with the HIP run-time of this build, where the loader finds it, or in
// $ROCM_PATH and /opt/rocm. It stays open for the life of the process.
// Errors: kUnavailable, naming what was tried and why each failed.
Result<RocblasFunctions> open_rocblas();

// `what` failed, in the words of a log line.
Status rocblas_error(const RocblasFunctions& rocblas, rocblas_status status,
                     const std::string& what);

}  // namespace encore::rocm
