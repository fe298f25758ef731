#include "rocblas_library.h"

#include "rocm_folder.h"

namespace encore::rocm {
namespace {

// A process holds one HIP run-time: a library made for another major version brings a second.
#if HIP_VERSION_MAJOR == 5
constexpr const char* kNames[] = {"librocblas.so.3", "librocblas.so.0"};
#elif HIP_VERSION_MAJOR == 6
constexpr const char* kNames[] = {"librocblas.so.4"};
#else
constexpr const char* kNames[] = {"librocblas.so.5"};
#endif

// Fills the table.
void find_all(gpu::Symbols& symbols, RocblasFunctions& functions) {
  symbols.find("rocblas_create_handle", &functions.create);
  symbols.find("rocblas_destroy_handle", &functions.destroy);
  symbols.find("rocblas_gemm_ex", &functions.multiply);
  symbols.find("rocblas_get_version_string", &functions.version);
  symbols.find("rocblas_set_atomics_mode", &functions.set_atomics_mode);
  symbols.find("rocblas_set_stream", &functions.set_stream);
  symbols.find("rocblas_set_workspace", &functions.set_workspace);
  symbols.find("rocblas_status_to_string", &functions.status_text);
}

}  // namespace

Result<RocblasFunctions> open_rocblas() {
  return gpu::open_functions<RocblasFunctions>(
      gpu::library_candidates(kNames, kRocmFolder, {"/lib/", "/lib64/"}), find_all,
      "rocBLAS cannot be opened; install it, or name its folder in LD_LIBRARY_PATH or the ROCm "
      "folder in ROCM_PATH.");
}

Status rocblas_error(const RocblasFunctions& rocblas, rocblas_status status,
                     const std::string& what) {
  if (status == rocblas_status_success) return {};
  const std::string message = what + ": " + rocblas.status_text(status);
  switch (status) {
    case rocblas_status_memory_error:
      return out_of_memory(message);
    case rocblas_status_not_implemented:
      return unimplemented(message);
    default:
      return internal_error(message);
  }
}

}  // namespace encore::rocm
