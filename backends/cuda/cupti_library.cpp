#include "cupti_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

namespace encore::cuda {
namespace {

// Newest first. The functions used and the fields read have been the same since 12.
constexpr const char* kNames[] = {"libcupti.so.13", "libcupti.so.12"};

std::vector<std::string> candidates() {
  std::vector<std::string> paths(std::begin(kNames), std::end(kNames));
  const char* cuda_path = std::getenv("CUDA_PATH");
  for (const std::string& folder :
       {std::string(cuda_path == nullptr ? "" : cuda_path), std::string("/usr/local/cuda")}) {
    if (folder.empty() || folder.front() != '/') continue;
    for (const char* below : {"/extras/CUPTI/lib64/", "/lib64/", "/lib/"}) {
      for (const char* name : kNames) paths.push_back(folder + below + name);
    }
  }
  return paths;
}

template <typename Function>
void find(void* library, const char* name, Function* function, std::string* missing) {
  *function = reinterpret_cast<Function>(::dlsym(library, name));
  if (*function == nullptr) *missing += std::string(missing->empty() ? "" : ", ") + name;
}

// Fills the table; gives the names that the library lacks.
std::string find_all(void* library, CuptiFunctions* functions) {
  std::string missing;
  find(library, "cuptiActivityDisable", &functions->disable, &missing);
  find(library, "cuptiActivityEnable", &functions->enable, &missing);
  find(library, "cuptiActivityFlushAll", &functions->flush_all, &missing);
  find(library, "cuptiActivityGetNextRecord", &functions->next_record, &missing);
  find(library, "cuptiActivityRegisterCallbacks", &functions->register_callbacks, &missing);
  find(library, "cuptiGetResultString", &functions->result_string, &missing);
  return missing;
}

}  // namespace

Result<CuptiFunctions> open_cupti() {
  std::string tried;
  for (const std::string& candidate : candidates()) {
    void* library = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* error = ::dlerror();
      tried += std::string("\n  ") + (error == nullptr ? "unknown loader error" : error);
      continue;
    }
    CuptiFunctions functions;
    const std::string missing = find_all(library, &functions);
    if (missing.empty()) return functions;
    tried.append("\n  ").append(candidate).append(" lacks ").append(missing);
    ::dlclose(library);
  }
  return unavailable(
      "CUPTI cannot be opened, and kernels are traced through it; install it, or name its folder "
      "in LD_LIBRARY_PATH or the CUDA folder in CUDA_PATH. Tried:" +
      tried);
}

Status cupti_status(const CuptiFunctions& cupti, CUptiResult result, const std::string& what) {
  if (result == CUPTI_SUCCESS) return {};
  const char* text = nullptr;
  static_cast<void>(cupti.result_string(result, &text));
  return unavailable(
      what + ": CUPTI: " + (text == nullptr ? std::to_string(static_cast<int>(result)) : text));
}

}  // namespace encore::cuda
