// Finds the libraries that a plugin needs, as the dynamic linker would.
#pragma once

#include <string>
#include <vector>

#include "encore/status.h"

namespace encore {

// Libraries that `path` needs, itself or through others, and that cannot be found: all of them, as
// "libx.so.1 (needed by /dir/plugin.so)". Looks among the libraries already loaded, then in
// LD_LIBRARY_PATH, the run path ($ORIGIN expanded), the linker's cache and the system's folders.
// Errors: as read_elf(), for `path` itself.
Result<std::vector<std::string>> missing_dependencies(const std::string& path);

}  // namespace encore
