#include "dependencies.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string_view>

#include "elf_file.h"
#include "linker_cache.h"
#include "package_hints.h"
#include "stage_error.h"

namespace encore {
namespace {

constexpr size_t kMaxLibraries = 1024;

bool is_loaded(const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle != nullptr) ::dlclose(handle);
  return handle != nullptr;
}

void replace_all(std::string* text, std::string_view from, const std::string& to) {
  for (size_t at = text->find(from); at != std::string::npos; at = text->find(from, at)) {
    text->replace(at, from.size(), to);
    at += to.size();
  }
}

// Folders of a colon-separated list, $ORIGIN standing for `origin`. Relative ones, the working
// directory among them, are left out.
void append_folders(std::string_view list, const std::string& origin,
                    std::vector<std::string>* folders) {
  while (!list.empty()) {
    const size_t colon = list.find(':');
    std::string folder(list.substr(0, colon));
    replace_all(&folder, "${ORIGIN}", origin);
    replace_all(&folder, "$ORIGIN", origin);
    if (folder.starts_with('/')) folders->push_back(std::move(folder));
    list = colon == std::string_view::npos ? std::string_view() : list.substr(colon + 1);
  }
}

// Everywhere the linker would look for `library` on behalf of the file in `origin`, in its order.
std::vector<std::string> candidates(const std::string& library, const std::string& origin,
                                    const std::string& run_path) {
  if (library.find('/') != std::string::npos) return {library};
  std::vector<std::string> folders;
  if (const char* environment = std::getenv("LD_LIBRARY_PATH")) {
    append_folders(environment, origin, &folders);
  }
  append_folders(run_path, origin, &folders);
  std::vector<std::string> paths;
  paths.reserve(folders.size());
  for (std::string& folder : folders) paths.push_back(folder.append("/").append(library));
  for (std::string& path : linker_cache_paths(library)) paths.push_back(std::move(path));
#if defined(__x86_64__)
  paths.push_back("/lib/x86_64-linux-gnu/" + library);
  paths.push_back("/usr/lib/x86_64-linux-gnu/" + library);
#elif defined(__aarch64__)
  paths.push_back("/lib/aarch64-linux-gnu/" + library);
  paths.push_back("/usr/lib/aarch64-linux-gnu/" + library);
#endif
  for (const char* folder : {"/lib64/", "/usr/lib64/", "/lib/", "/usr/lib/"}) {
    paths.push_back(folder + library);
  }
  return paths;
}

// A file whose needs have yet to be looked at.
struct Pending {
  std::string path;
  ElfFile elf;
};

}  // namespace

Result<std::vector<MissingLibrary>> missing_dependencies(const std::string& path, LoadCode* code) {
  ENCORE_ASSIGN_OR_RETURN(ElfFile first, read_elf(path, code));
  std::vector<Pending> pending;
  pending.push_back({path, std::move(first)});
  std::set<std::string> seen;
  std::vector<MissingLibrary> missing;
  while (!pending.empty() && seen.size() < kMaxLibraries) {
    const Pending file = std::move(pending.back());
    pending.pop_back();
    const std::string origin = std::filesystem::path(file.path).parent_path().string();
    for (const std::string& library : file.elf.needed) {
      if (!seen.insert(library).second || is_loaded(library)) continue;
      bool found = false;
      for (const std::string& candidate : candidates(library, origin, file.elf.run_path)) {
        Result<ElfFile> elf = read_elf(candidate);
        if (!elf.ok()) continue;
        pending.push_back({candidate, *std::move(elf)});
        found = true;
        break;
      }
      if (!found) missing.push_back({.name = library, .needed_by = file.path});
    }
  }
  return missing;
}

Status check_dependencies(const std::string& path, LoadCode* code) {
  ENCORE_ASSIGN_OR_RETURN(const std::vector<MissingLibrary> missing,
                          missing_dependencies(path, code));
  if (missing.empty()) return {};
  std::string list;
  for (const MissingLibrary& library : missing) {
    if (!list.empty()) list += ", ";
    list.append(library.name).append(" (needed by ").append(library.needed_by);
    const std::string_view package = package_hint(library.name);
    if (!package.empty()) list.append("; usually in ").append(package);
    list += ')';
  }
  return stage_error(code, LoadCode::kDependencyMissing,
                     not_found("libraries not found: " + list +
                               "; install them or add their folder to LD_LIBRARY_PATH"));
}

}  // namespace encore
