// NVML, NVIDIA's management library, opened at run time: how much of a device is in use, told
// without a context on it. Declared here as https://docs.nvidia.com/deploy/nvml-api has it, since
// its header comes with few of the toolkit's packages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "encore/status.h"

namespace encore::cuda {

struct NvmlDevice;
// nvmlMemory_t, bytes. `used` has what the driver keeps for itself.
struct NvmlMemory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};

// The functions of NVML that Encore calls. They return 0 if they succeed.
struct NvmlFunctions {
  int (*init)() = nullptr;
  int (*device_by_bus_id)(const char* bus_id, NvmlDevice** device) = nullptr;
  int (*memory)(NvmlDevice* device, NvmlMemory* memory) = nullptr;
};

// Where the driver has put it: the loader's own search alone.
std::vector<std::string> nvml_candidates();

// Opens the first candidate there is and starts it, for the life of the process.
// Errors: kUnavailable: there is none, or it does not start.
Result<NvmlFunctions> open_nvml(std::span<const std::string> candidates);

// Bytes in use on the device "0000:1b:00.0", by all processes. Nothing if NVML does not say.
std::optional<int64_t> bytes_in_use(const NvmlFunctions& nvml, const std::string& bus_id);

}  // namespace encore::cuda
