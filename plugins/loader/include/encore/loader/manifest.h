// `NAME.plugin.yaml`: what a plugin is called and which library it is, read before any of its code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "encore/loader/load_failure.h"
#include "encore/status.h"

namespace encore {

inline constexpr std::string_view kManifestSuffix = ".plugin.yaml";
inline constexpr int32_t kManifestVersion = 1;
// Limits of a manifest: far above what one needs, far below what would hurt.
inline constexpr size_t kMaxManifestBytes = size_t{64} << 10;
inline constexpr size_t kMaxManifestVariants = 32;
inline constexpr size_t kMaxManifestFeatures = 64;  // that one variant requires
inline constexpr size_t kMaxManifestText = 256;     // bytes of one value

// One library of a plugin, and what the processor must have for it.
struct ManifestVariant {
  std::string name;                       // empty: the manifest has a `library`, no `variants`
  std::string library;                    // as written: relative to the manifest's folder
  std::vector<std::string> requirements;  // names as in /proc/cpuinfo
};

struct Manifest {
  std::string path;  // of the manifest, absolute
  std::string name;  // the backend's
  std::string vendor;
  std::string version;
  uint32_t abi_major = 0;
  uint32_t abi_minor = 0;
  std::vector<ManifestVariant> variants;  // best first; at least one
  std::string variant_option;             // backend option that forces a variant; may be empty
  std::string conformance;                // what the vendor claims; may be empty
};

// Reads a manifest's text. `path` is taken as the file's name; nothing is opened.
// Errors: kInvalidArgument with code kManifestMalformed or kNameForeign: path, line, key, value and
// what would be right. `*failure` is filled in unless null.
Result<Manifest> parse_manifest(std::string_view text, const std::string& path,
                                LoadFailure* failure = nullptr);

// Opens and parses. Errors: as parse_manifest(), and kManifestUnreadable.
Result<Manifest> read_manifest(const std::string& path, LoadFailure* failure = nullptr);

// The absolute path of a variant's library. It must lie below the manifest's folder, symbolic links
// followed; one that does not exist is taken as written.
// Errors: kManifestOutside.
Result<std::string> manifest_library(const Manifest& manifest, const ManifestVariant& variant,
                                     LoadFailure* failure = nullptr);

// Whether a backend of that vendor may have that name: 1 to 64 of a-z 0-9 . _ -, and a bare word if
// the vendor is Encore, else `vendor.name`. Empty if so, else what is wrong and what to do.
std::string name_problem(std::string_view name, std::string_view vendor);

}  // namespace encore
