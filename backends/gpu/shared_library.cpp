#include "shared_library.h"

#include <dlfcn.h>

#include <cstdlib>

namespace encore::gpu {

std::vector<std::string> library_candidates(std::span<const char* const> names,
                                            const VendorFolder& folder,
                                            std::initializer_list<const char*> below) {
  std::vector<std::string> paths(names.begin(), names.end());
  const char* named = std::getenv(folder.variable);
  for (const std::string& root :
       {std::string(named == nullptr ? "" : named), std::string(folder.usual)}) {
    if (root.empty() || root.front() != '/') continue;
    for (const char* place : below) {
      for (const char* name : names) paths.push_back(root + place + name);
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

}  // namespace encore::gpu
