// Vendors' libraries that are opened at run time: where they are looked for, and how a table of
// their functions is filled.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "encore/status.h"

namespace encore::gpu {

// Where a vendor's files are: in the folder that an environment variable names, if that is
// absolute, and in the usual one.
struct VendorFolder {
  const char* variable = nullptr;  // "CUDA_PATH"
  const char* usual = nullptr;     // "/usr/local/cuda"
};

// The names alone, for the loader's own search, then each of `below` (such as "/lib64/") in the
// vendor's folders.
std::vector<std::string> library_candidates(std::span<const char* const> names,
                                            const VendorFolder& folder,
                                            std::initializer_list<const char*> below);

// Looks functions up in one open library.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  template <typename Function>
  void find(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(address(name));
  }
  // The names that were not found, separated by commas.
  const std::string& missing() const { return missing_; }

 private:
  void* address(const char* name);

  void* library_;
  std::string missing_;
};

// Opens a candidate that the loader finds: it stays open unless close_library() is called.
// Null, and why in `error`, if it does not.
void* open_library(const std::string& candidate, std::string* error);
void close_library(void* library);

// Opens the first candidate that has every function that `fill` asks its Symbols for. The library
// stays open for the life of the process.
// Errors: kUnavailable: `message`, then what was tried and why each failed.
template <typename Functions, typename Fill>
Result<Functions> open_functions(std::span<const std::string> candidates, const Fill& fill,
                                 const std::string& message) {
  std::string tried;
  for (const std::string& candidate : candidates) {
    std::string error;
    void* library = open_library(candidate, &error);
    if (library == nullptr) {
      tried.append("\n  ").append(error);
      continue;
    }
    Functions functions;
    Symbols symbols(library);
    fill(symbols, functions);
    if (symbols.missing().empty()) return functions;
    tried.append("\n  ").append(candidate).append(" lacks ").append(symbols.missing());
    close_library(library);
  }
  return unavailable(message + " Tried:" + tried);
}

}  // namespace encore::gpu
