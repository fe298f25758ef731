// Collects the plugins that the configuration names and that manifests in folders describe. Opens
// manifests, never a library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "encore/config.h"
#include "encore/loader/cpu_isa.h"
#include "encore/loader/manifest.h"
#include "encore/loader/registry.h"
#include "encore/status.h"

namespace encore {

// Two paths are one file if device and inode are equal.
struct FileId {
  uint64_t device = 0;
  uint64_t inode = 0;
  bool operator==(const FileId&) const = default;
};

// What a search knows of a plugin beside its record.
struct PluginOrigin {
  bool named = false;                    // by plugins.load
  bool optional = false;                 // and may fail
  std::string sha256;                    // that its library must have; empty: any
  Manifest manifest;                     // empty if there is none, or it could not be read
  std::vector<VariantVerdict> verdicts;  // of all its libraries
  std::vector<FileId> manifest_files;
  std::vector<FileId> libraries;
  Status error;  // of a rejected one
};

// One thread.
class PluginSearch {
 public:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  explicit PluginSearch(const CpuIsa& isa) : isa_(isa) {}

  // An entry of plugins.load: a library, or a manifest.
  void add_named(const std::string& source, const PluginLoad& wanted);
  // The manifests in a folder, in the order of their names.
  void add_folder(const std::string& source, const std::string& path);

  // Makes a record that was found to be another name of an earlier one's library its alias.
  void merge(size_t index, size_t into);

  void reject(size_t index, LoadFailure failure, Status error);

  std::vector<PluginRecord>& records() { return records_; }
  std::vector<PluginOrigin>& origins() { return origins_; }  // by the records' index
  const std::vector<SearchedFolder>& folders() const { return folders_; }

 private:
  void add_library(const std::string& source, const PluginLoad& wanted);
  void add_manifest(const std::string& source, const std::string& path, PluginOrigin origin);
  Status describe(const std::string& path, PluginOrigin& origin, LoadFailure* failure) const;
  size_t find_same(const PluginOrigin& origin, std::string_view name) const;
  void add_alias(size_t index, const std::string& path, const PluginOrigin& origin);

  const CpuIsa& isa_;
  std::vector<PluginRecord> records_;
  std::vector<PluginOrigin> origins_;
  std::vector<SearchedFolder> folders_;
};

}  // namespace encore
