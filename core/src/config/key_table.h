// The one list of configuration keys. YAML, environment, --set, `encore config` and
// docs/configuration.md are all driven by it: a new key is one entry here.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"

namespace encore {

// In the order of the documentation; sections together. Any thread.
std::span<const KeyInfo> config_keys();

// The entry of that name; null if there is none.
const KeyInfo* find_key(std::string_view name);

// The part before the first dot.
std::string_view key_section(std::string_view name);

// Section names, in order, once each.
std::vector<std::string> config_sections();

// "did you mean "scheduler.max_context"?", or a list of what the section or file may hold.
std::string suggest_key(std::string_view name);

}  // namespace encore
