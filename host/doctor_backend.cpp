// The configured backend, all devices, each mode of running, and what falls back to what.
#include <string>

#include "device_modes.h"
#include "doctor.h"
#include "mode_selftest.h"
#include "open_backend.h"
#include "text_table.h"

namespace encore {
namespace {

// Whether the configuration asks for a mode of test_modes().
bool is_asked_for(const std::string& mode, const Config& config) {
  if (mode == "eager") return true;  // every run makes that runner first
  if (mode == "prefill full") return config.capture.prefill == PrefillMode::kFull;
  if (mode == "prefill breakable") return config.capture.prefill == PrefillMode::kBreakable;
  if (mode == "decode graph") return config.capture.decode;
  return config.parallel.tensor > 1;
}

HealthCheck device_check(const std::string& name, const DeviceReport& device) {
  HealthCheck check;
  check.name = name;
  check.cells = {device.info.id,
                 device.info.name,
                 device.info.architecture,
                 format_bytes(static_cast<double>(device.memory.free_bytes)),
                 format_bytes(static_cast<double>(device.memory.total_bytes)),
                 capability_names(device.info.capabilities)};
  return check;
}

HealthCheck selftest_check(Backend& backend, int32_t device) {
  HealthCheck check;
  check.name = "known answers";
  const Status status = backend.selftest(device);
  check.detail = status.ok() ? "the device's kernels give what they should" : status.message();
  if (status.code() == StatusCode::kUnimplemented) {
    check.verdict = Verdict::kSkip;
  } else if (!status.ok()) {
    check.verdict = Verdict::kFail;
    check.next_step =
        "choose another device, or send `encore devices` and this report to the vendor";
  }
  return check;
}

HealthCheck mode_check(const ModeTest& test, const Config& config) {
  HealthCheck check;
  check.name = test.mode;
  check.detail = test.detail;
  switch (test.state) {
    case ModeTest::State::kPassed:
      break;
    case ModeTest::State::kNotClaimed:
      check.verdict = Verdict::kSkip;
      break;
    case ModeTest::State::kFailed:
      check.verdict = is_asked_for(test.mode, config) ? Verdict::kFail : Verdict::kWarn;
      check.next_step =
          "switch the mode off in `capture`, or send this report to the plugin's vendor";
      break;
  }
  return check;
}

// How steps of one kind run, and what happens where the device cannot.
void check_graph_policy(const Examined& examined, const char* name, bool asked, uint64_t bit,
                        const char* key, HealthSection& section) {
  const CaptureConfig& capture = examined.loaded->config.capture;
  if (!asked) {
    if (capture.require_graph) {
      section.fail(name,
                   std::string(key) + " is off, and capture.require_graph forbids eager steps",
                   std::string("switch ") + key + " on, or capture.require_graph off");
    } else {
      section.ok(name, std::string("run eagerly, since ") + key + " is off");
    }
    return;
  }
  const bool offered = examined.backend.ok() && (examined.device.capabilities & bit) != 0;
  if (!examined.backend.ok() || offered) {
    section.ok(name, "replay graphs");
    return;
  }
  const std::string detail = "the device offers no graph for them";
  if (capture.require_graph) {
    section.fail(name, detail + ", and capture.require_graph forbids eager steps",
                 "switch capture.require_graph off, or choose another device");
  } else {
    section.warn(name, detail + ": they run eagerly",
                 std::string("switch ") + key + " off, or choose another device");
  }
}

// What to do about a configured backend that cannot be used.
std::string next_step(const Examined& examined) {
  const std::string& name = examined.loaded->config.backend.name;
  for (const PluginReport& report : examined.plugins) {
    if (report.record.name != name) continue;
    return "put right what is named here (`encore plugins describe " + name +
           "` tells more), or choose another backend.name";
  }
  return "set backend.name to one that `encore plugins list` shows as loaded, or install a plugin "
         "of that name";
}

}  // namespace

HealthSection check_backend(const Examined& examined) {
  HealthSection section{"backend", "The configured backend", {}, {}};
  const BackendConfig& wanted = examined.loaded->config.backend;
  if (!examined.backend.ok()) {
    section.fail(wanted.name, examined.backend.status().message(), next_step(examined));
    return section;
  }
  const BackendIdentity identity = (*examined.backend)->identity();
  section.ok(wanted.name, identity.version + " by " + identity.vendor + ", device " +
                              std::to_string(wanted.device) + ": " + examined.device.name + " (" +
                              examined.device.architecture + ")");
  return section;
}

HealthSection check_devices(const Examined& examined) {
  HealthSection section{"devices",
                        "Devices and memory",
                        {"id", "device", "architecture", "free", "total", "modes"},
                        {}};
  for (const PluginReport& report : examined.plugins) {
    for (size_t i = 0; i < report.devices.size(); ++i) {
      const std::string name = report.record.name + " " + std::to_string(i);
      section.checks.push_back(device_check(name, report.devices[i]));
    }
  }
  return section;
}

HealthSection check_modes(const Examined& examined) {
  HealthSection section{"modes", "Self-test of each mode, on a tiny model", {}, {}};
  if (!examined.backend.ok()) {
    section.skip("all", "there is no backend to ask");
    return section;
  }
  const Config& config = examined.loaded->config;
  Backend& backend = **examined.backend;
  section.checks.push_back(selftest_check(backend, config.backend.device));
  for (const ModeTest& test :
       test_modes(backend, config.backend.device, examined.device.capabilities,
                  config.parallel.tensor > 1)) {
    section.checks.push_back(mode_check(test, config));
  }
  return section;
}

HealthSection check_policy(const Examined& examined) {
  HealthSection section{"policy", "What falls back to what", {}, {}};
  const Config& config = examined.loaded->config;
  section.ok("backend", "never replaced by another; one that cannot run ends the run");
  const bool breakable = config.capture.prefill == PrefillMode::kBreakable;
  check_graph_policy(examined, "prefill steps", config.capture.prefill != PrefillMode::kOff,
                     breakable ? kCapabilityPrefillBreakable : kCapabilityPrefillFull,
                     "capture.prefill", section);
  check_graph_policy(examined, "decode steps", config.capture.decode, kCapabilityDecodeGraph,
                     "capture.decode", section);
  if (!config.capture.require_graph) {
    section.ok("no graph",
               "a step that no graph can run runs eagerly, with a counter and a log "
               "line that say why; capture.require_graph would make it an error");
  } else if (config.capture.lazy) {
    section.fail("no graph",
                 "capture.lazy serves eagerly at first, which capture.require_graph "
                 "forbids",
                 "switch one of them off");
  } else {
    section.ok("no graph", "a step that no graph can run is an error (capture.require_graph)");
  }
  return section;
}

}  // namespace encore
