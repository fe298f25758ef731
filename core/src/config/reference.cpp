#include "config/reference.h"

#include <algorithm>
#include <string_view>

#include "config/field.h"
#include "config/key_table.h"

namespace encore {

std::string config_reference_markdown() {
  const Config defaults;
  std::string text;
  std::string section;
  for (const KeyInfo& key : config_keys()) {
    if (section != key_section(key.name)) {
      section = key_section(key.name);
      text += (text.empty() ? "### `" : "\n### `") + section +
              "`\n\n| key | value | default | meaning |\n|---|---|---|---|\n";
    }
    text += "| `" + std::string(key.name.substr(section.size() + 1)) + "` | " +
            describe_limits(key) + " | `" + show(key, defaults) + "` | " + std::string(key.help) +
            " |\n";
  }
  return text;
}

std::string describe_config(const LoadedConfig& loaded) {
  size_t width = 0;
  for (const KeyInfo& key : config_keys()) width = std::max(width, key.name.size());
  std::string text;
  for (const KeyInfo& key : config_keys()) {
    const std::string name(key.name);
    text += name + std::string(width + 2 - name.size(), ' ') + show(key, loaded.config) + "  (" +
            loaded.origin(name) + ")\n";
  }
  return text;
}

}  // namespace encore
