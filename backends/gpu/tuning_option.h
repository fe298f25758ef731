// The option of backends whose matrix algorithms are chosen by timing.
#pragma once

#include <filesystem>
#include <string>

#include "encore/backend.h"
#include "gpu_backend.h"
#include "tuning_file.h"

namespace encore::gpu {

inline OptionSchema tuning_option() {
  return {"tuning_cache",
          OptionType::kString,
          "auto",
          0,
          -1,
          {},
          "Folder that keeps which matrix algorithms and kernels were fastest; auto is "
          "$XDG_CACHE_HOME/encore or ~/.cache/encore, off keeps nothing."};
}

// Empty: nothing is kept.
inline std::filesystem::path tuning_folder(const OptionValues& options) {
  const std::string folder = option_value(options, "tuning_cache", "auto");
  if (folder == "auto") return default_tuning_folder();
  return folder == "off" ? std::filesystem::path() : std::filesystem::path(folder);
}

}  // namespace encore::gpu
