// Feeds arbitrary bytes to the manifest reader: every input is either read, within its limits, or
// refused with a message.
//   cmake --preset fuzz && cmake --build --preset fuzz --target fuzz_manifest
//   fuzz_manifest -max_total_time=600 -max_len=4096 corpus/fuzz_manifest
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "encore/loader/cpu_isa.h"
#include "encore/loader/manifest.h"
#include "encore/loader/variants.h"
#include "encore/sdk/abi_text.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

bool is_clean(std::string_view text) {
  return text.size() <= encore::kMaxManifestText && encore::sdk::valid_utf8(text) == text;
}

void check(const encore::Manifest& manifest) {
  require(!manifest.variants.empty());
  require(manifest.variants.size() <= encore::kMaxManifestVariants);
  require(encore::name_problem(manifest.name, manifest.vendor).empty());
  require(is_clean(manifest.vendor) && is_clean(manifest.version));
  require(is_clean(manifest.conformance) && is_clean(manifest.variant_option));
  for (const encore::ManifestVariant& variant : manifest.variants) {
    require(variant.requirements.size() <= encore::kMaxManifestFeatures);
    const auto path = (std::filesystem::path("/nowhere") / variant.library).lexically_normal();
    require(path.string().starts_with("/nowhere/"));
  }
  const auto verdicts = encore::judge_variants(manifest, encore::CpuIsa({}));
  require(verdicts.ok() && verdicts->size() == manifest.variants.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  encore::LoadFailure failure;
  const auto manifest = encore::parse_manifest(text, "/nowhere/fuzz.plugin.yaml", &failure);
  if (manifest.ok()) {
    check(*manifest);
    return 0;
  }
  require(failure.code != encore::LoadCode::kNone && !failure.message.empty());
  require(encore::sdk::valid_utf8(failure.message) == failure.message);
  require(manifest.status().message().find("/nowhere/fuzz.plugin.yaml") != std::string::npos);
  return 0;
}
