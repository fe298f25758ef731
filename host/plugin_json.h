// `encore plugins --json`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "encore/loader/registry.h"
#include "plugin_report.h"

namespace encore {

// {schema, host, plugins: [...], searched: [...]}: every field is always there, null where unknown.
nlohmann::ordered_json plugin_list_json(std::span<const PluginReport> reports,
                                        std::span<const SearchedFolder> folders);

// {schema, host, plugin: {...}}: that of the list, with options, extensions and variants.
nlohmann::ordered_json plugin_description_json(const PluginReport& report);

}  // namespace encore
