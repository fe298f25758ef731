#include "nvml_library.h"

#include "shared_library.h"

namespace encore::cuda {
namespace {

void find_all(gpu::Symbols& symbols, NvmlFunctions& functions) {
  symbols.find("nvmlInit_v2", &functions.init);
  symbols.find("nvmlDeviceGetHandleByPciBusId_v2", &functions.device_by_bus_id);
  symbols.find("nvmlDeviceGetMemoryInfo", &functions.memory);
}

}  // namespace

std::vector<std::string> nvml_candidates() { return {"libnvidia-ml.so.1"}; }

Result<NvmlFunctions> open_nvml(std::span<const std::string> candidates) {
  ENCORE_ASSIGN_OR_RETURN(
      const NvmlFunctions nvml,
      gpu::open_functions<NvmlFunctions>(candidates, find_all,
                                         "NVML, a part of NVIDIA's driver, cannot be opened."));
  if (const int error = nvml.init(); error != 0) {
    return unavailable("NVML does not start: error " + std::to_string(error));
  }
  return nvml;
}

std::optional<int64_t> bytes_in_use(const NvmlFunctions& nvml, const std::string& bus_id) {
  NvmlDevice* device = nullptr;
  NvmlMemory memory;
  if (nvml.device_by_bus_id(bus_id.c_str(), &device) != 0 || nvml.memory(device, &memory) != 0) {
    return std::nullopt;
  }
  return static_cast<int64_t>(memory.used);
}

}  // namespace encore::cuda
