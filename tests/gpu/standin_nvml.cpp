// Stands in for NVIDIA's libnvidia-ml: one device, "0000:1b:00.0", of which 5 GB are in use. It
// does not start while ENCORE_STANDIN_NVML_ERROR is set.
#include <cstdlib>
#include <string_view>

#define ENCORE_STANDIN_ENTRY extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidArgument = 2;
constexpr int kDriverNotLoaded = 9;

struct Memory {
  unsigned long long total, free, used;
};

int the_device = 0;
bool started = false;

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming)
ENCORE_STANDIN_ENTRY int nvmlInit_v2() {
  if (std::getenv("ENCORE_STANDIN_NVML_ERROR") != nullptr) return kDriverNotLoaded;
  started = true;
  return kSuccess;
}

// NOLINTNEXTLINE(readability-identifier-naming)
ENCORE_STANDIN_ENTRY int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  if (!started || std::string_view(bus_id) != "0000:1b:00.0") return kInvalidArgument;
  *device = &the_device;
  return kSuccess;
}

// NOLINTNEXTLINE(readability-identifier-naming)
ENCORE_STANDIN_ENTRY int nvmlDeviceGetMemoryInfo(void* device, void* memory) {
  if (device != &the_device) return kInvalidArgument;
  *static_cast<Memory*>(memory) = {150'000'000'000, 145'000'000'000, 5'000'000'000};
  return kSuccess;
}
