// What stands in a model's directory.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "encore/status.h"

namespace encore {

std::string join_path(const std::string& directory, const std::string& name);

bool is_directory(const std::string& path);
bool is_file(const std::string& path);

// Names of the regular files (or links to them) that end in `suffix`, sorted.
// Errors: kNotFound or kInvalidArgument if the directory cannot be read.
Result<std::vector<std::string>> list_files(const std::string& directory, std::string_view suffix);

}  // namespace encore
