// The library to check, where the path given is a manifest.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "encore/status.h"

namespace encore::check {

// `path` itself, unless it is a NAME.plugin.yaml: then the library that it names, of several
// variants the one that `options` force, else the best that this processor can run. Loads nothing.
// Errors: those of the manifest, and of a variant that is unknown or cannot run here.
Result<std::string> plugin_library(const std::string& path,
                                   std::span<const std::pair<std::string, std::string>> options);

}  // namespace encore::check
