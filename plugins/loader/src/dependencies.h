// Finds the libraries that a plugin needs, as the dynamic linker would.
#pragma once

#include <string>
#include <vector>

#include "encore/loader/load_failure.h"
#include "encore/status.h"

namespace encore {

struct MissingLibrary {
  std::string name;       // "libx.so.1"
  std::string needed_by;  // the file that asks for it
};

// Libraries that `path` needs, itself or through others, and that cannot be found: all of them.
// Looks among the libraries already loaded, then in LD_LIBRARY_PATH, the run path ($ORIGIN
// expanded), the linker's cache and the system's folders.
// Errors: as read_elf(), for `path` itself.
Result<std::vector<MissingLibrary>> missing_dependencies(const std::string& path,
                                                         LoadCode* code = nullptr);

// The stage "dependencies": none is missing.
// Errors: kNotFound listing all, each with the package that usually brings it.
Status check_dependencies(const std::string& path, LoadCode* code);

}  // namespace encore
