// Entries of a TuningFile from and into a map. What `parse` and `format` say of an entry is the
// cache's: an optional pair of a JSON value, and back. `what` names an entry, for messages.
// `changed` says whether the map holds what the file need not.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "encore/status.h"
#include "folder_lock.h"
#include "tuning_file.h"

namespace encore::gpu {

// REQUIRES: there is a file. Errors: kDataLoss.
template <typename Map, typename Parse>
Result<Map> read_entries(const TuningFile& file, const std::string& what, const Parse& parse) {
  ENCORE_ASSIGN_OR_RETURN(const nlohmann::json list, file.load());
  Map read;
  for (const nlohmann::json& value : list) {
    auto entry = parse(value);
    if (!entry) {
      return file.damaged(what + " " + std::to_string(read.size()) + " is malformed");
    }
    if (!read.insert(*std::move(entry)).second) {
      return file.damaged("a " + what + " stands twice");
    }
  }
  return read;
}

// Replaces `entries` by the file's, if there is a file. Errors: kDataLoss; then `entries` are as
// they were, and are to replace the file.
template <typename Map, typename Parse>
Status load_entries(const TuningFile& file, const std::string& what, const Parse& parse,
                    Map* entries, bool* changed) {
  if (!file.exists()) return {};
  Result<Map> read = read_entries<Map>(file, what, parse);
  *changed = !read.ok();
  if (!read.ok()) return read.status();
  *entries = std::move(read).value();
  return {};
}

// Writes `entries`, if they are changed, and those that others have put into the file meanwhile.
// Errors: see TuningFile; they are still changed then.
template <typename Map, typename Parse, typename Format>
Status save_entries(const TuningFile& file, const std::string& what, const Parse& parse,
                    const Format& format, const Map& entries, bool* changed) {
  if (!*changed || file.path().empty()) return {};
  ENCORE_ASSIGN_OR_RETURN(const FolderLock lock, file.lock());
  Map all = entries;
  if (file.exists()) {
    Result<Map> others = read_entries<Map>(file, what, parse);
    if (others.ok()) all.merge(std::move(others).value());
  }
  nlohmann::json list = nlohmann::json::array();
  for (const auto& entry : all) list.push_back(format(entry));
  ENCORE_RETURN_IF_ERROR(file.save(std::move(list)));
  *changed = false;
  return {};
}

}  // namespace encore::gpu
