#include "nccl_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

namespace encore::cuda {
namespace {

constexpr const char* kName = "libnccl.so.2";

std::vector<std::string> candidates() {
  std::vector<std::string> paths = {kName};
  const char* cuda_path = std::getenv("CUDA_PATH");
  for (const std::string& folder :
       {std::string(cuda_path == nullptr ? "" : cuda_path), std::string("/usr/local/cuda")}) {
    if (folder.empty() || folder.front() != '/') continue;
    for (const char* below : {"/lib64/", "/lib/"}) paths.push_back(folder + below + kName);
  }
  return paths;
}

template <typename Function>
void find(void* library, const char* name, Function* function, std::string* missing) {
  *function = reinterpret_cast<Function>(::dlsym(library, name));
  if (*function == nullptr) *missing += std::string(missing->empty() ? "" : ", ") + name;
}

// Fills the table; gives the names that the library lacks.
std::string find_all(void* library, NcclFunctions* functions) {
  std::string missing;
  find(library, "ncclAllReduce", &functions->all_reduce, &missing);
  find(library, "ncclCommAbort", &functions->comm_abort, &missing);
  find(library, "ncclCommDestroy", &functions->comm_destroy, &missing);
  find(library, "ncclCommGetAsyncError", &functions->async_error, &missing);
  find(library, "ncclCommInitAll", &functions->init_all, &missing);
  find(library, "ncclGetErrorString", &functions->error_string, &missing);
  find(library, "ncclGetLastError", &functions->last_error, &missing);
  return missing;
}

}  // namespace

Result<NcclFunctions> open_nccl() {
  std::string tried;
  for (const std::string& candidate : candidates()) {
    void* library = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* error = ::dlerror();
      tried += std::string("\n  ") + (error == nullptr ? "unknown loader error" : error);
      continue;
    }
    NcclFunctions functions;
    const std::string missing = find_all(library, &functions);
    if (missing.empty()) return functions;
    tried.append("\n  ").append(candidate).append(" lacks ").append(missing);
    ::dlclose(library);
  }
  return unavailable(
      "NCCL cannot be opened, and parallel.tensor needs it on GPUs; install it, or name its folder "
      "in LD_LIBRARY_PATH or the CUDA folder in CUDA_PATH. Tried:" +
      tried);
}

Status nccl_status(const NcclFunctions& nccl, ncclResult_t result, const std::string& what) {
  if (result == ncclSuccess) return {};
  std::string message = what + ": NCCL: " + nccl.error_string(result);
  const char* detail = nccl.last_error(nullptr);
  if (detail != nullptr && detail[0] != '\0') message += std::string(" (") + detail + ")";
  return internal_error(message);
}

}  // namespace encore::cuda
