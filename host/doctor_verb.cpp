// encore doctor [CONFIG]: checks everything that a run needs, with a next step where one fails.
#include <spdlog/spdlog.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "config_flags.h"
#include "doctor.h"
#include "logging.h"
#include "open_backend.h"
#include "verbs.h"

namespace encore {
namespace {

struct DoctorFlags {
  ConfigFlags config;
  bool json = false;
};

HealthSection check_configuration(const DoctorFlags& flags, const Status& status) {
  HealthSection section{"configuration", "Configuration", {}, {}};
  if (!status.ok()) {
    section.fail("file", status.message(), "correct it; `encore config keys` lists all keys");
  } else if (flags.config.file().empty()) {
    section.ok("file", "none given; defaults, environment and flags are used");
  } else {
    section.ok("file", flags.config.file());
  }
  return section;
}

HealthReport report_on(const LoadedConfig& loaded, HealthSection configuration) {
  const std::unique_ptr<PluginRegistry> registry = make_registry(loaded.config);
  const Examined examined = examine(loaded, *registry);
  HealthReport report;
  report.sections = {std::move(configuration),
                     check_folders(examined),
                     check_plugins(examined),
                     check_libraries(examined),
                     check_machine(),
                     check_isa(examined, cpu_isa()),
                     check_devices(examined),
                     check_backend(examined),
                     check_modes(examined),
                     check_policy(examined),
                     check_model_files(examined)};
  return report;
}

int doctor(const DoctorFlags& flags) {
  const Result<LoadedConfig> loaded = flags.config.load();
  HealthSection configuration = check_configuration(flags, loaded.status());
  HealthReport report;
  if (loaded.ok()) {
    // The report says it all, unless more was asked for.
    LogConfig log = loaded->config.log;
    if (log.level != "debug") log.level = "error";
    set_up_logging(log);
    report = report_on(*loaded, std::move(configuration));
  } else {
    report.sections = {std::move(configuration)};
  }
  if (flags.json) {
    constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
    std::printf("%s\n", health_json(report).dump(2, ' ', false, kReplace).c_str());
  } else {
    std::fputs(health_text(report).c_str(), stdout);
  }
  return static_cast<int>(health_of(report));
}

}  // namespace

Examined examine(const LoadedConfig& loaded, PluginRegistry& registry) {
  Examined examined;
  examined.loaded = &loaded;
  examined.registry = &registry;
  const Status required = registry.discover();
  examined.backend = required.ok() ? usable_backend(registry, loaded) : required;
  registry.load_all();
  examined.plugins = report_plugins(registry, loaded);
  if (!examined.backend.ok()) return examined;
  Backend& backend = **examined.backend;
  Status status;
  for (const PluginReport& report : examined.plugins) {
    if (report.record.backend == &backend) status = report.devices_status;
  }
  if (status.ok()) status = check_device(backend, loaded);
  Result<DeviceInfo> device =
      status.ok() ? backend.device_info(loaded.config.backend.device) : status;
  if (device.ok()) {
    examined.device = *std::move(device);
  } else {
    examined.backend = device.status();
  }
  return examined;
}

void declare_doctor(CLI::App& app, VerbAction& action) {
  CLI::App* verb = app.add_subcommand("doctor", "Check what a run needs, and say what to do");
  auto flags = std::make_shared<DoctorFlags>();
  flags->config.declare(*verb, ConfigFlags::File::kOptional);
  verb->add_flag("--json", flags->json, "Print JSON");
  verb->footer(
      "Exit codes: 0 healthy; 1 degraded: something that the configured run does not need is\n"
      "broken or second best; 2 unusable: the configuration, backend or model cannot run.");
  verb->callback([flags, &action] { action = [flags] { return doctor(*flags); }; });
}

}  // namespace encore
