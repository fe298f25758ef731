#include "device.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "settings.h"

namespace encore::standin {
namespace {

constexpr Architecture kArchitectures[] = {
    {"gfx90a", "gfx90a:sramecc+:xnack-", "Stand-in for an AMD Instinct MI210", 9, 0, 64},
    {"gfx942", "gfx942:sramecc+:xnack-", "Stand-in for an AMD Instinct MI300X", 9, 4, 64},
    {"gfx1100", "gfx1100", "Stand-in for an AMD Radeon RX 7900 XTX", 11, 0, 32},
    {"gfx1030", "gfx1030", "Stand-in for an AMD Radeon RX 6800", 10, 3, 32},
};

constexpr int kClockKhz = 1700000;
constexpr int kMemoryClockKhz = 1600000;
constexpr int kMemoryBits = 4096;
constexpr int kL2Bytes = 8 << 20;
constexpr int kFirstBus = 3;

thread_local int the_current_device = 0;
std::map<int, hipError_t>& losses = *new std::map<int, hipError_t>;
std::set<std::pair<int, int>>& accesses = *new std::set<std::pair<int, int>>;

}  // namespace

const Architecture& architecture() {
  static const Architecture& chosen = []() -> const Architecture& {
    for (const Architecture& known : kArchitectures) {
      if (settings().architecture == known.name) return known;
    }
    std::fprintf(stderr, "stand-in: ENCORE_STANDIN_ARCH: %s is not known\n",
                 settings().architecture.c_str());
    std::abort();
  }();
  return chosen;
}

bool has_device(int device) { return device >= 0 && device < settings().num_devices; }

int current_device() { return the_current_device; }
void set_current_device(int device) { the_current_device = device; }

hipError_t loss_of(int device) {
  const auto loss = losses.find(device);
  return loss == losses.end() ? hipSuccess : loss->second;
}
void lose(int device, hipError_t error) { losses.emplace(device, error); }
void revive() { losses.clear(); }

bool loses_device(hipError_t error) {
  switch (error) {
    case hipErrorECCNotCorrectable:
    case hipErrorIllegalAddress:
    case hipErrorLaunchTimeOut:
    case hipErrorAssert:
    case hipErrorLaunchFailure:
    case hipErrorUnknown:
      return true;
    default:
      return false;
  }
}

hipError_t attribute_of(hipDeviceAttribute_t attribute, int* value) {
  switch (attribute) {
    case hipDeviceAttributeMultiprocessorCount:
      *value = settings().processors;
      return hipSuccess;
    case hipDeviceAttributeWarpSize:
      *value = architecture().lanes;
      return hipSuccess;
    case hipDeviceAttributeComputeCapabilityMajor:
      *value = architecture().major;
      return hipSuccess;
    case hipDeviceAttributeComputeCapabilityMinor:
      *value = architecture().minor;
      return hipSuccess;
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
      *value = static_cast<int>(kLocalBytes);
      return hipSuccess;
    case hipDeviceAttributeMaxThreadsPerBlock:
      *value = kMaxThreads;
      return hipSuccess;
    case hipDeviceAttributeClockRate:
      *value = kClockKhz;
      return hipSuccess;
    case hipDeviceAttributeMemoryClockRate:
      *value = kMemoryClockKhz;
      return hipSuccess;
    case hipDeviceAttributeMemoryBusWidth:
      *value = kMemoryBits;
      return hipSuccess;
    case hipDeviceAttributeL2CacheSize:
      *value = kL2Bytes;
      return hipSuccess;
    default:
      return hipErrorInvalidValue;
  }
}

hipDeviceProp_t properties_of(int device) {
  hipDeviceProp_t properties{};
  const Architecture& about = architecture();
  std::snprintf(properties.name, sizeof(properties.name), "%s", about.product);
  std::snprintf(properties.gcnArchName, sizeof(properties.gcnArchName), "%s", about.listed);
  properties.totalGlobalMem = settings().memory_bytes;
  properties.sharedMemPerBlock = kLocalBytes;
  properties.maxSharedMemoryPerMultiProcessor = kLocalBytes;
  properties.regsPerBlock = 65536;
  properties.warpSize = about.lanes;
  properties.maxThreadsPerBlock = kMaxThreads;
  std::fill_n(properties.maxThreadsDim, 3, kMaxThreads);
  std::fill_n(properties.maxGridSize, 3, 65535);
  properties.maxGridSize[0] = 2147483647;
  properties.clockRate = kClockKhz;
  properties.memoryClockRate = kMemoryClockKhz;
  properties.memoryBusWidth = kMemoryBits;
  properties.major = about.major;
  properties.minor = about.minor;
  properties.multiProcessorCount = settings().processors;
  properties.l2CacheSize = kL2Bytes;
  properties.maxThreadsPerMultiProcessor = 2048;
  properties.concurrentKernels = 1;
  properties.pciBusID = kFirstBus + device;
  return properties;
}

std::string bus_id_of(int device) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "0000:%02x:00.0", kFirstBus + device);
  return text.data();
}

bool can_access(int device, int peer) { return accesses.count({device, peer}) > 0; }
bool enable_access(int device, int peer) { return accesses.emplace(device, peer).second; }

}  // namespace encore::standin
