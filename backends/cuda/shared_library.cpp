#include "shared_library.h"

#include <dlfcn.h>

#include <cstdlib>

namespace encore::cuda {

std::vector<std::string> library_candidates(std::span<const char* const> names,
                                            std::initializer_list<const char*> below) {
  std::vector<std::string> paths(names.begin(), names.end());
  const char* cuda_path = std::getenv("CUDA_PATH");
  for (const std::string& folder :
       {std::string(cuda_path == nullptr ? "" : cuda_path), std::string("/usr/local/cuda")}) {
    if (folder.empty() || folder.front() != '/') continue;
    for (const char* place : below) {
      for (const char* name : names) paths.push_back(folder + place + name);
    }
  }
  return paths;
}

void* Symbols::address(const char* name) {
  void* found = ::dlsym(library_, name);
  if (found == nullptr) missing_.append(missing_.empty() ? "" : ", ").append(name);
  return found;
}

void* open_library(const std::string& candidate, std::string* error) {
  void* library = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const char* text = ::dlerror();
  *error = text != nullptr ? text : "unknown loader error";
  return nullptr;
}

void close_library(void* library) { ::dlclose(library); }

}  // namespace encore::cuda
