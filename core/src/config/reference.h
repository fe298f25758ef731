// The key table as text for people.
#pragma once

#include <string>

#include "config/config_loader.h"

namespace encore {

// Markdown tables, a section each: what docs/configuration.md holds between its markers.
std::string config_reference_markdown();

// One line a key: name, value and where it was written.
std::string describe_config(const LoadedConfig& loaded);

}  // namespace encore
