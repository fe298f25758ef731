// Where plugins were looked for, how far each came, and which libraries are missing.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "doctor.h"

namespace encore {
namespace {

constexpr std::array kStages = {LoadStage::kManifest,     LoadStage::kPath,
                                LoadStage::kPermissions,  LoadStage::kElf,
                                LoadStage::kDependencies, LoadStage::kProbe,
                                LoadStage::kLoad,         LoadStage::kNegotiation,
                                LoadStage::kOptions,      LoadStage::kRegistration};

// A plugin that the run cannot do without: named in plugins.load and not as optional.
bool is_required(const PluginRecord& record, const PluginsConfig& plugins) {
  for (size_t i = 0; i < plugins.load.size(); ++i) {
    if (record.source == "plugins.load[" + std::to_string(i) + "]") {
      return !plugins.load[i].optional;
    }
  }
  return false;
}

// Manifests that clash are rejected by what they say, before anything is loaded.
bool is_rejected_unloaded(const PluginRecord& record) {
  return !record.manifest.empty() && record.failure->stage() == LoadStage::kRegistration &&
         record.failure->code != LoadCode::kManifestStale;
}

// "passed", "failed", "not reached", or "skipped" for the manifest of a library named directly.
std::string outcome_of(LoadStage stage, const PluginRecord& record) {
  if (stage == LoadStage::kManifest && record.manifest.empty()) return "skipped";
  if (!record.failure) return record.state == PluginState::kFound ? "not reached" : "passed";
  if (stage == record.failure->stage()) return "failed";
  if (stage != LoadStage::kManifest && is_rejected_unloaded(record)) return "not reached";
  return stage < record.failure->stage() ? "passed" : "not reached";
}

std::string listed(const HealthCheck& check, std::string_view outcome) {
  std::string text;
  for (const auto& [stage, found] : check.stages) {
    if (found != outcome) continue;
    if (!text.empty()) text += ", ";
    text += stage;
  }
  return text.empty() ? "none" : text;
}

std::string probe_text(ProbeVerdict verdict) {
  switch (verdict) {
    case ProbeVerdict::kNotAsked:
      return "not tried out";
    case ProbeVerdict::kRemembered:
      return "tried out earlier";
    case ProbeVerdict::kFresh:
      return "tried out now";
  }
  return "unknown";
}

std::string source_text(const PluginRecord& record) {
  std::string text = record.source;
  if (!record.variant.empty()) text += ", variant " + record.variant;
  return text;
}

void describe_stages(const PluginRecord& record, HealthCheck& check) {
  for (const LoadStage stage : kStages) {
    check.stages.emplace_back(load_stage_name(stage), outcome_of(stage, record));
  }
  if (record.failure) {
    const LoadFailure& failure = *record.failure;
    check.detail = std::string("rejected at stage ") +
                   std::string(load_stage_name(failure.stage())) + ": " + failure.message;
    check.detail += std::string("\ncode ") + std::to_string(static_cast<int32_t>(failure.code)) +
                    " (" + std::string(load_code_name(failure.code)) + ") of " + failure.path +
                    "; " + source_text(record);
    check.detail += std::string("\nstages passed: ") + listed(check, "passed");
  } else {
    check.detail = std::string(plugin_state_name(record.state)) + ", " + source_text(record) +
                   ", " + probe_text(record.probe_verdict) + ": " + record.real_path;
    if (!record.reason.empty()) check.detail += "\nunavailable: " + record.reason;
    check.detail += std::string("\nstages passed: ") + listed(check, "passed");
  }
}

HealthCheck check_plugin(const Examined& examined, const PluginReport& report) {
  const PluginRecord& record = report.record;
  const Config& config = examined.loaded->config;
  const bool is_configured = record.name == config.backend.name && !examined.backend.ok();
  HealthCheck check;
  check.name = label_of(record);
  describe_stages(record, check);
  if (record.failure) {
    const bool fatal = is_configured || is_required(record, config.plugins);
    check.verdict = fatal ? Verdict::kFail : Verdict::kWarn;
    check.next_step = next_step_for(*record.failure);
  } else if (record.state == PluginState::kUnavailable) {
    check.verdict = is_configured ? Verdict::kFail : Verdict::kSkip;
    if (is_configured) {
      check.next_step = "put right what the reason names, or choose another backend.name";
    }
  } else if (!report.devices_status.ok()) {
    check.verdict = is_configured ? Verdict::kFail : Verdict::kWarn;
    check.detail += "\nno devices: " + report.devices_status.message();
    check.next_step = "put right what the message names; then run `encore devices`";
  }
  return check;
}

}  // namespace

HealthSection check_folders(const Examined& examined) {
  HealthSection section{"directories", "Where plugins are looked for, in order", {}, {}};
  const size_t num_named = examined.loaded->config.plugins.load.size();
  if (num_named == 0) {
    section.skip("plugins.load", "names nothing");
  } else {
    section.ok("plugins.load", std::string("names ") + std::to_string(num_named));
  }
  for (const SearchedFolder& folder : examined.registry->searched()) {
    std::string detail = folder.path + ": ";
    if (folder.skipped.empty()) {
      detail += std::to_string(folder.num_manifests) +
                (folder.num_manifests == 1 ? " manifest" : " manifests");
      for (const std::string& library : folder.stray_libraries) {
        detail += std::string("\nleft alone, since no manifest names it: ") + library;
      }
      section.ok(folder.source, detail);
      continue;
    }
    detail += folder.skipped;
    if (!folder.exists && folder.source == "installed") {
      section.skip(folder.source, detail);
    } else if (!folder.exists) {
      section.warn(folder.source, detail, "create the folder, or take it out of plugins.dirs");
    } else {
      section.warn(folder.source, detail,
                   "make it readable, owned by root or you and writable by nobody else");
    }
  }
  return section;
}

HealthSection check_plugins(const Examined& examined) {
  HealthSection section{"plugins", "Plugins, stage by stage", {}, {}};
  for (const PluginReport& report : examined.plugins) {
    section.checks.push_back(check_plugin(examined, report));
    for (const VariantVerdict& variant : report.record.variants) {
      if (variant.state != VariantState::kRejected || !variant.failure) continue;
      if (report.record.failure) continue;  // told already
      section.warn(label_of(report.record) + ", variant " + variant.name,
                   failure_text(*variant.failure), next_step_for(*variant.failure));
    }
  }
  if (examined.plugins.empty()) {
    section.fail("none", "no plugin was found",
                 "install Encore with its plugins, or name one in plugins.load or plugins.dirs");
  }
  return section;
}

HealthSection check_libraries(const Examined& examined) {
  HealthSection section{"libraries", "Missing libraries", {}, {}};
  for (const PluginReport& report : examined.plugins) {
    const PluginRecord& record = report.record;
    if (!record.failure || record.failure->code != LoadCode::kDependencyMissing) continue;
    section.warn(label_of(record), record.failure->message, next_step_for(*record.failure));
  }
  if (section.checks.empty()) section.ok("plugins", "no plugin lacks a library that it needs");
  return section;
}

std::string next_step_for(const LoadFailure& failure) {
  switch (failure.stage()) {
    case LoadStage::kManifest:
      if (failure.code == LoadCode::kManifestNoVariant ||
          failure.code == LoadCode::kVariantUnsupported) {
        return "choose a variant that `encore plugins describe` shows as usable";
      }
      return "correct the manifest " + failure.path + ", or install the plugin again";
    case LoadStage::kPath:
      return "correct the path in plugins.load or the manifest, or install the plugin again";
    case LoadStage::kPermissions:
      return "run chown and chmod go-w on what the message names, after checking that nobody "
             "has changed the file";
    case LoadStage::kElf:
      return "fetch or build the plugin again, for this machine's processor";
    case LoadStage::kDependencies:
      return "install the packages named, or add the libraries' folder to LD_LIBRARY_PATH";
    case LoadStage::kProbe:
      if (failure.code == LoadCode::kProbeNotStarted) {
        return "install Encore whole: libexec/encore/encore-plugin-probe belongs to it";
      }
      return "run `encore-plugin-check " + failure.path + "` and send its report to the vendor";
    case LoadStage::kLoad:
      return "build the plugin again with -z defs, against the libraries of this machine";
    case LoadStage::kNegotiation:
    case LoadStage::kOptions:
      return "use a release of the plugin made for this version of Encore; "
             "`encore-plugin-check " +
             failure.path + "` says what is wrong with this one";
    case LoadStage::kRegistration:
      return "keep only one plugin of that name, with the manifest that came with it";
  }
  return "install the plugin again";
}

}  // namespace encore
