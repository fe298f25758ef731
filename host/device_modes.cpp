#include "device_modes.h"

#include "encore/backend.h"

namespace encore {
namespace {

struct Name {
  uint64_t bit;
  const char* name;
};

constexpr Name kNames[] = {{kCapabilityEager, "eager"},
                           {kCapabilityPrefillFull, "prefill full"},
                           {kCapabilityPrefillBreakable, "prefill breakable"},
                           {kCapabilityDecodeGraph, "decode graph"},
                           {kCapabilityCollectives, "collectives"}};

}  // namespace

std::vector<std::string> mode_names(uint64_t capabilities) {
  std::vector<std::string> names;
  for (const Name& entry : kNames) {
    if ((capabilities & entry.bit) != 0) names.emplace_back(entry.name);
  }
  return names;
}

std::string capability_names(uint64_t capabilities) {
  std::string text;
  for (const std::string& name : mode_names(capabilities)) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

}  // namespace encore
