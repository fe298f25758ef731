// Entries of a TuningFile into a map.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "encore/status.h"
#include "tuning_file.h"

namespace encore::gpu {

// Replaces `entries` by the file's, if there is a file. `parse` makes an optional pair of a JSON
// value; `what` names an entry, for messages. Errors: kDataLoss; then `entries` are as they were.
template <typename Map, typename Parse>
Status load_entries(const TuningFile& file, const std::string& what, const Parse& parse,
                    Map* entries) {
  if (!file.exists()) return {};
  ENCORE_ASSIGN_OR_RETURN(const nlohmann::json list, file.load());
  Map loaded;
  for (const nlohmann::json& value : list) {
    auto entry = parse(value);
    if (!entry) {
      return file.damaged(what + " " + std::to_string(loaded.size()) + " is malformed");
    }
    if (!loaded.insert(*std::move(entry)).second) {
      return file.damaged("a " + what + " stands twice");
    }
  }
  *entries = std::move(loaded);
  return {};
}

}  // namespace encore::gpu
