// Chooses among the libraries of one plugin before any of them is loaded.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "encore/loader/cpu_isa.h"
#include "encore/loader/load_failure.h"
#include "encore/loader/manifest.h"
#include "encore/loader/plugin_loader.h"
#include "encore/status.h"

namespace encore {

enum class VariantState {
  kUntried,      // the processor can run it; nobody loaded it: a better one was, or none yet
  kUnsupported,  // the processor, the operating system or the kernel lacks something
  kRejected,     // it failed to load or failed its self-test
  kChosen,
};

std::string_view variant_state_name(VariantState state);

// What became of one library of a manifest.
struct VariantVerdict {
  std::string name;     // empty for a manifest without variants
  std::string library;  // absolute
  VariantState state = VariantState::kUntried;
  std::string reason;                  // unless chosen: why not, for people
  std::optional<LoadFailure> failure;  // of kRejected
};

// One verdict for each variant, in the manifest's order: kUntried or kUnsupported. A pure function
// but for the look at the libraries' paths.
// Errors: kManifestOutside, for whichever variant.
Result<std::vector<VariantVerdict>> judge_variants(const Manifest& manifest, const CpuIsa& isa,
                                                   LoadFailure* failure = nullptr);

// Loads a library of the plugin; fills in the failure if it cannot.
using LoadVariant = std::function<Result<LoadedPlugin>(const std::string& library, LoadFailure*)>;

// Loads the first variant that the processor can run and that loads with its self-test; those
// that fail on the way are left as kRejected in `verdicts`, and the next is tried.
//   forced   the variant to load and no other; empty or "auto": the best
// Errors: kVariantUnknown and kVariantUnsupported for a forced one, kManifestNoVariant; if all
// that can run here fail, the failure of the best.
Result<LoadedPlugin> load_variant(const Manifest& manifest, std::string_view forced,
                                  const LoadVariant& load, std::vector<VariantVerdict>& verdicts,
                                  LoadFailure* failure = nullptr);

}  // namespace encore
