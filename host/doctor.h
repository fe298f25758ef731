// The parts of `encore doctor`, each a section of its report.
#pragma once

#include <string>
#include <vector>

#include "config/config_loader.h"
#include "encore/backend.h"
#include "encore/loader/cpu_isa.h"
#include "encore/loader/registry.h"
#include "encore/status.h"
#include "health_report.h"
#include "plugin_report.h"

namespace encore {

// What the sections look at. Borrows all that it points to.
struct Examined {
  const LoadedConfig* loaded = nullptr;
  const PluginRegistry* registry = nullptr;
  std::vector<PluginReport> plugins;
  // The configured backend, initialised, or why there is none.
  Result<Backend*> backend = not_found("no backend");
  DeviceInfo device;  // the configured one; only with a backend
};

// Finds, loads and initialises all that can be. Never fails: what went wrong is in the result.
Examined examine(const LoadedConfig& loaded, PluginRegistry& registry);

// doctor_plugins.cpp: where plugins were looked for, how far each came, which libraries are
// missing.
HealthSection check_folders(const Examined& examined);
HealthSection check_plugins(const Examined& examined);
HealthSection check_libraries(const Examined& examined);

// doctor_machine.cpp: drivers and run-time libraries; what the processor can run.
HealthSection check_machine();
HealthSection check_isa(const Examined& examined, const CpuIsa& isa);

// doctor_backend.cpp: the configured backend, all devices, each mode, what falls back to what.
HealthSection check_backend(const Examined& examined);
HealthSection check_devices(const Examined& examined);
HealthSection check_modes(const Examined& examined);
HealthSection check_policy(const Examined& examined);

// doctor_model.cpp: the model's files, tokenizer, and whether they fit the device.
HealthSection check_model_files(const Examined& examined);

// What to do about a plugin that was rejected.
std::string next_step_for(const LoadFailure& failure);

}  // namespace encore
