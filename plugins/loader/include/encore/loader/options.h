// Checks `backend.options` against the schema that the plugin declares.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "encore/backend.h"
#include "encore/status.h"

namespace encore {

// Every key of the schema once, in its order: the value given, or the default.
// Errors: kInvalidArgument naming key, value and what would be right: an unknown key (with the
// nearest known one), a key given twice, a value of the wrong type, out of range or not a choice.
Result<OptionValues> check_options(std::span<const OptionSchema> schema,
                                   std::span<const std::pair<std::string, std::string>> given);

}  // namespace encore
