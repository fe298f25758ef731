#include "plugin_library.h"

#include <algorithm>
#include <vector>

#include "encore/loader/cpu_isa.h"
#include "encore/loader/manifest.h"
#include "encore/loader/variants.h"

namespace encore::check {

Result<std::string> plugin_library(const std::string& path,
                                   std::span<const std::pair<std::string, std::string>> options) {
  if (!path.ends_with(kManifestSuffix)) return path;
  ENCORE_ASSIGN_OR_RETURN(const Manifest manifest, read_manifest(path));
  ENCORE_ASSIGN_OR_RETURN(std::vector<VariantVerdict> verdicts,
                          judge_variants(manifest, cpu_isa()));
  const auto forced = std::find_if(options.begin(), options.end(), [&](const auto& option) {
    return !manifest.variant_option.empty() && option.first == manifest.variant_option;
  });
  // The choice without the loading.
  const auto take = [](const std::string& library, LoadFailure*) -> Result<LoadedPlugin> {
    LoadedPlugin taken;
    taken.path = library;
    return taken;
  };
  ENCORE_ASSIGN_OR_RETURN(
      const LoadedPlugin taken,
      load_variant(manifest, forced == options.end() ? "" : forced->second, take, verdicts));
  return taken.path;
}

}  // namespace encore::check
