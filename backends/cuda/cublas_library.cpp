#include "cublas_library.h"

#include <dlfcn.h>

#include <cstdlib>

namespace encore::cuda {
namespace {

// Newest first. The functions used have been the same since 12.
constexpr const char* kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};

std::string last_loader_error() {
  const char* text = ::dlerror();
  return text != nullptr ? text : "unknown loader error";
}

template <typename Function>
void find(void* library, const char* name, Function* function, std::string* missing) {
  *function = reinterpret_cast<Function>(::dlsym(library, name));
  if (*function == nullptr) *missing += std::string(missing->empty() ? "" : ", ") + name;
}

// Fills the table; gives the names that the library lacks.
std::string find_all(void* library, CublasFunctions* functions) {
  std::string missing;
  const auto get = [&](const char* name, auto* function) {
    find(library, name, function, &missing);
  };
  get("cublasLtCreate", &functions->create);
  get("cublasLtDestroy", &functions->destroy);
  get("cublasLtGetStatusName", &functions->status_name);
  get("cublasLtGetVersion", &functions->version);
  get("cublasLtMatmul", &functions->matmul);
  get("cublasLtMatmulAlgoCheck", &functions->algorithm_check);
  get("cublasLtMatmulAlgoGetHeuristic", &functions->heuristic);
  get("cublasLtMatmulDescCreate", &functions->desc_create);
  get("cublasLtMatmulDescDestroy", &functions->desc_destroy);
  get("cublasLtMatmulDescSetAttribute", &functions->desc_set);
  get("cublasLtMatmulPreferenceCreate", &functions->preference_create);
  get("cublasLtMatmulPreferenceDestroy", &functions->preference_destroy);
  get("cublasLtMatmulPreferenceSetAttribute", &functions->preference_set);
  get("cublasLtMatrixLayoutCreate", &functions->layout_create);
  get("cublasLtMatrixLayoutDestroy", &functions->layout_destroy);
  return missing;
}

}  // namespace

std::vector<std::string> cublas_candidates() {
  std::vector<std::string> candidates(std::begin(kNames), std::end(kNames));
  const auto add_folder = [&](const std::string& folder) {
    for (const char* name : kNames) candidates.push_back(folder + "/lib64/" + name);
  };
  const char* cuda_path = std::getenv("CUDA_PATH");
  if (cuda_path != nullptr && cuda_path[0] == '/') add_folder(cuda_path);
  add_folder("/usr/local/cuda");
  return candidates;
}

Result<CublasFunctions> open_cublas(std::span<const std::string> candidates) {
  std::string tried;
  for (const std::string& candidate : candidates) {
    void* library = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      tried += "\n  " + last_loader_error();
      continue;
    }
    CublasFunctions functions;
    const std::string missing = find_all(library, &functions);
    if (missing.empty()) return functions;
    tried.append("\n  ").append(candidate).append(" lacks ").append(missing);
    ::dlclose(library);
  }
  return unavailable(
      "cuBLASLt cannot be opened; install it, or name its folder in LD_LIBRARY_PATH or the CUDA "
      "folder in CUDA_PATH. Tried:" +
      tried);
}

Status cublas_status(const CublasFunctions& cublas, cublasStatus_t status,
                     const std::string& what) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  const std::string message = what + ": " + cublas.status_name(status);
  switch (status) {
    case CUBLAS_STATUS_ALLOC_FAILED:
      return out_of_memory(message);
    case CUBLAS_STATUS_NOT_SUPPORTED:
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return unimplemented(message);
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return unavailable(message);
    default:
      return internal_error(message);
  }
}

}  // namespace encore::cuda
