#include "encore/loader/variants.h"

#include <algorithm>
#include <utility>

#include "plugin_log.h"

namespace encore {
namespace {

constexpr std::string_view kAuto = "auto";

std::string quoted(std::string_view text) { return std::string("\"").append(text).append("\""); }

Status refuse(const Manifest& manifest, LoadCode code, StatusCode status, std::string message,
              LoadFailure* failure) {
  Status error(status, "manifest " + manifest.path + ": " + message);
  if (failure != nullptr) *failure = {code, manifest.path, std::move(message)};
  return error;
}

// "amx: amx_tile, amx_int8: the processor lacks it", one a line, of all that cannot run here.
std::string unsupported_list(std::span<const VariantVerdict> verdicts) {
  std::string text;
  for (const VariantVerdict& verdict : verdicts) {
    if (verdict.state != VariantState::kUnsupported) continue;
    text.append("\n  ").append(verdict.name).append(": ").append(verdict.reason);
  }
  return text;
}

Result<LoadedPlugin> load_forced(const Manifest& manifest, std::string_view forced,
                                 const LoadVariant& load, std::vector<VariantVerdict>& verdicts,
                                 LoadFailure* failure) {
  const auto found = std::find_if(verdicts.begin(), verdicts.end(),
                                  [&](const auto& each) { return each.name == forced; });
  const std::string option = manifest.variant_option + " is " + quoted(forced);
  if (found == verdicts.end()) {
    std::string names(kAuto);
    for (const VariantVerdict& each : verdicts) names.append(", ").append(each.name);
    return refuse(manifest, LoadCode::kVariantUnknown, StatusCode::kInvalidArgument,
                  option + "; variants of " + manifest.name + ": " + names, failure);
  }
  if (found->state == VariantState::kUnsupported) {
    return refuse(manifest, LoadCode::kVariantUnsupported, StatusCode::kInvalidArgument,
                  option + ", which cannot run here: " + found->reason, failure);
  }
  for (VariantVerdict& each : verdicts) {
    if (&each != &*found && each.state == VariantState::kUntried) {
      each.reason = option;
    }
  }
  LoadFailure why;
  Result<LoadedPlugin> plugin = load(found->library, &why);
  found->state = plugin.ok() ? VariantState::kChosen : VariantState::kRejected;
  if (plugin.ok()) return plugin;
  found->reason = why.message;
  found->failure = why;
  if (failure != nullptr) *failure = why;
  return plugin;
}

}  // namespace

std::string_view variant_state_name(VariantState state) {
  switch (state) {
    case VariantState::kUntried:
      return "untried";
    case VariantState::kUnsupported:
      return "unsupported";
    case VariantState::kRejected:
      return "rejected";
    case VariantState::kChosen:
      return "chosen";
  }
  return "unknown";
}

Result<std::vector<VariantVerdict>> judge_variants(const Manifest& manifest, const CpuIsa& isa,
                                                   LoadFailure* failure) {
  std::vector<VariantVerdict> verdicts;
  for (const ManifestVariant& variant : manifest.variants) {
    VariantVerdict& verdict = verdicts.emplace_back();
    verdict.name = variant.name;
    ENCORE_ASSIGN_OR_RETURN(verdict.library, manifest_library(manifest, variant, failure));
    verdict.reason = isa.why_not(variant.requirements);
    if (!verdict.reason.empty()) verdict.state = VariantState::kUnsupported;
  }
  return verdicts;
}

Result<LoadedPlugin> load_variant(const Manifest& manifest, std::string_view forced,
                                  const LoadVariant& load, std::vector<VariantVerdict>& verdicts,
                                  LoadFailure* failure) {
  if (!forced.empty() && forced != kAuto) {
    return load_forced(manifest, forced, load, verdicts, failure);
  }
  Status first_error;
  for (VariantVerdict& verdict : verdicts) {
    if (verdict.state != VariantState::kUntried) continue;
    LoadFailure why;
    Result<LoadedPlugin> plugin = load(verdict.library, &why);
    if (plugin.ok()) {
      verdict.state = VariantState::kChosen;
      for (VariantVerdict& other : verdicts) {
        if (other.state == VariantState::kUntried) other.reason = verdict.name + " is better";
      }
      return plugin;
    }
    verdict.state = VariantState::kRejected;
    verdict.reason = why.message;
    verdict.failure = why;
    if (!verdict.name.empty()) {
      plugin_log(sdk::LogLevel::kWarn, "variant " + verdict.name + " of backend '" + manifest.name +
                                           "' is passed over: " + plugin.status().message());
    }
    if (!first_error.ok()) continue;
    first_error = plugin.status();
    if (failure != nullptr) *failure = why;
  }
  if (!first_error.ok()) return first_error;
  return refuse(
      manifest, LoadCode::kManifestNoVariant, StatusCode::kUnavailable,
      "no variant of " + manifest.name + " can run on this processor:" + unsupported_list(verdicts),
      failure);
}

}  // namespace encore
