// `encore plugins` for people.
#pragma once

#include <span>
#include <string>

#include "encore/loader/registry.h"
#include "plugin_report.h"

namespace encore {

// Two tables, what each plugin is and where it comes from, then why some are not used; the folders
// that were searched if nothing was found.
std::string plugin_list_text(std::span<const PluginReport> reports,
                             std::span<const SearchedFolder> folders);

// All that is known of one plugin.
std::string plugin_description_text(const PluginReport& report);

// Key, default, value and meaning of each option.
std::string options_text(std::span<const OptionSchema> options);

}  // namespace encore
