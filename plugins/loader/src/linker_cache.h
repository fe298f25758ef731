// The dynamic linker's cache of library paths, /etc/ld.so.cache.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace encore {

// Paths that the cache at `cache_path` gives for a library's name, best first; none if the cache is
// absent, damaged or of another format.
std::vector<std::string> linker_cache_paths(std::string_view library,
                                            const std::string& cache_path = "/etc/ld.so.cache");

}  // namespace encore
