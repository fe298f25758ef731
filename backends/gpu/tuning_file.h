// A file that keeps what was timed on one device with one version of what was timed, which
// `identity` names: it means nothing to any other. The file is JSON:
//
//   {"format": 1, "identity": "...", "<list>": [...]}
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "encore/status.h"
#include "folder_lock.h"

namespace encore::gpu {

// $XDG_CACHE_HOME/encore, else $HOME/.cache/encore, else empty.
std::filesystem::path default_tuning_folder();

// Several processes and threads may share a folder: none sees half a file, and those that hold the
// lock from load() to save() undo nothing of each other's.
class TuningFile {
 public:
  // `list` names the entries, in the file and as the first word of its name. An empty folder keeps
  // nothing on disk.
  TuningFile(const std::filesystem::path& folder, std::string list, std::string identity);

  bool exists() const;
  // The entries. Errors: damaged().
  Result<nlohmann::json> load() const;
  // Makes the folder. Errors: kUnavailable, naming the path.
  Result<FolderLock> lock() const;
  // REQUIRES: lock() is held. Errors: kUnavailable, naming the path; an older file is then still
  // whole.
  Status save(nlohmann::json entries) const;
  // kDataLoss: the file is not used, and the next save() replaces it.
  Status damaged(std::string_view why) const;

  // Empty if nothing is kept.
  const std::filesystem::path& path() const { return path_; }

 private:
  Status not_kept(const std::string& why) const;

  std::filesystem::path path_;
  std::string list_;
  std::string identity_;
};

}  // namespace encore::gpu
