// What `encore plugins` knows of each plugin: what the registry found, and what its devices say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config_loader.h"
#include "encore/backend.h"
#include "encore/loader/registry.h"
#include "encore/status.h"

namespace encore {

struct DeviceReport {
  DeviceInfo info;
  DeviceMemory memory;
};

struct PluginReport {
  PluginRecord record;
  std::vector<OptionSchema> options;
  std::vector<DeviceReport> devices;
  Status devices_status;  // why there are no devices, or not all
};

// Every entry of the registry, in its order, with the devices of those that are usable here: each
// is initialised for that, the configured backend with its options, others with their defaults.
// Once. REQUIRES: registry.load_all() was called, and none is initialised yet.
std::vector<PluginReport> report_plugins(const PluginRegistry& registry,
                                         const LoadedConfig& loaded);

// The entry's name, or its path where loading did not come as far as a name.
std::string label_of(const PluginRecord& record);

// "1.1"; "-" for 0.0, which stands for unknown.
std::string abi_text(AbiVersion version);
AbiVersion host_abi();

// "encore_backend_cpu.so: stage ELF: elf_truncated (305): MESSAGE".
std::string failure_text(const LoadFailure& failure);

}  // namespace encore
