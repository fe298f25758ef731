#include "plugin_search.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "permissions.h"

namespace encore {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxManifests = 1000;  // of one folder

void add_file(const std::string& path, std::vector<FileId>& files) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) == 0) files.push_back({status.st_dev, status.st_ino});
}

bool share_a_file(const std::vector<FileId>& one, const std::vector<FileId>& other) {
  return std::any_of(one.begin(), one.end(), [&](const FileId& file) {
    return std::find(other.begin(), other.end(), file) != other.end();
  });
}

bool is_manifest(std::string_view file) { return file.ends_with(kManifestSuffix); }

bool looks_like_a_plugin(std::string_view file) {
  return file.starts_with("encore_backend_") && file.ends_with(".so");
}

// Names of files in a folder, sorted; `*error` says why there are none, or not all.
std::set<std::string> list_folder(const std::string& path, std::error_code& error) {
  std::set<std::string> names;
  fs::directory_iterator at(path, error);
  for (const fs::directory_iterator end; !error && at != end; at.increment(error)) {
    names.insert(at->path().filename().string());
  }
  return names;
}

}  // namespace

void PluginSearch::add_named(const std::string& source, const PluginLoad& wanted) {
  if (!is_manifest(wanted.path)) {
    add_library(source, wanted);
    return;
  }
  PluginOrigin origin;
  origin.named = true;
  origin.optional = wanted.optional;
  origin.sha256 = wanted.sha256;
  add_manifest(source, wanted.path, std::move(origin));
}

void PluginSearch::add_library(const std::string& source, const PluginLoad& wanted) {
  PluginOrigin origin;
  origin.named = true;
  origin.optional = wanted.optional;
  origin.sha256 = wanted.sha256;
  // A relative path is refused when it is loaded; looking it up would ask the working directory.
  if (wanted.path.starts_with('/')) add_file(wanted.path, origin.libraries);
  for (size_t i = 0; i < records_.size(); ++i) {
    if (!records_[i].manifest.empty()) continue;
    if (!share_a_file(origins_[i].libraries, origin.libraries)) continue;
    // Two checksums of one file: one of them is wrong, and loading says which.
    const std::string& other = origins_[i].sha256;
    if (!other.empty() && !origin.sha256.empty() && other != origin.sha256) continue;
    add_alias(i, wanted.path, origin);
    return;
  }
  PluginRecord& record = records_.emplace_back();
  record.source = source;
  record.path = wanted.path;
  origins_.push_back(std::move(origin));
}

void PluginSearch::add_folder(const std::string& source, const std::string& path) {
  SearchedFolder folder;
  folder.source = source;
  folder.path = path;
  if (!path.starts_with('/')) {
    folder.skipped = "the path is relative; give an absolute one";
    folders_.push_back(std::move(folder));
    return;
  }
  std::error_code error;
  folder.exists = fs::is_directory(path, error);
  const std::set<std::string> files = list_folder(path, error);
  if (error) folder.skipped = error.message();
  const size_t first = records_.size();
  for (const std::string& file : files) {
    if (!is_manifest(file)) continue;
    if (static_cast<size_t>(++folder.num_manifests) > kMaxManifests) {
      folder.skipped = "only the first " + std::to_string(kMaxManifests) + " manifests were read";
      break;
    }
    add_manifest(source, (fs::path(path) / file).string(), {});
  }
  std::set<std::string> described;
  for (size_t i = 0; i < records_.size(); ++i) {
    for (const ManifestVariant& variant : origins_[i].manifest.variants) {
      if (i >= first) described.insert(fs::path(variant.library).filename().string());
    }
  }
  for (const std::string& file : files) {
    if (looks_like_a_plugin(file) && described.count(file) == 0) {
      folder.stray_libraries.push_back((fs::path(path) / file).string());
    }
  }
  folders_.push_back(std::move(folder));
}

void PluginSearch::add_manifest(const std::string& source, const std::string& path,
                                PluginOrigin origin) {
  PluginRecord record;
  record.source = source;
  record.manifest = path;
  LoadFailure failure;
  Status error;
  if (!path.starts_with('/')) {
    failure = {LoadCode::kPathRelative, path, "the path is relative; give an absolute one"};
    error = invalid_argument("manifest " + path + ": " + failure.message);
  } else {
    add_file(path, origin.manifest_files);
    error = describe(path, origin, &failure);
  }
  record.name = origin.manifest.name;
  record.vendor = origin.manifest.vendor;
  record.version = origin.manifest.version;
  record.abi = {origin.manifest.abi_major, origin.manifest.abi_minor};
  record.conformance = origin.manifest.conformance;
  record.variant_option = origin.manifest.variant_option;
  for (const VariantVerdict& verdict : origin.verdicts) {
    add_file(verdict.library, origin.libraries);
    if (!verdict.name.empty()) record.variants.push_back(verdict);
  }
  const size_t same = find_same(origin, record.name);
  if (same != kNone) {
    add_alias(same, path, origin);
    return;
  }
  records_.push_back(std::move(record));
  origins_.push_back(std::move(origin));
  if (!error.ok()) reject(records_.size() - 1, std::move(failure), std::move(error));
}

// Reads the manifest, and judges its variants.
Status PluginSearch::describe(const std::string& path, PluginOrigin& origin,
                              LoadFailure* failure) const {
  ENCORE_ASSIGN_OR_RETURN(origin.manifest, read_manifest(path, failure));
  // Whoever can change the manifest chooses the library.
  LoadCode code = LoadCode::kNone;
  const Result<std::string> real = check_permissions(path, &code);
  if (!real.ok()) {
    *failure = {code, path, real.status().message()};
    return {real.status().code(), "manifest " + path + ": permissions: " + failure->message};
  }
  ENCORE_ASSIGN_OR_RETURN(origin.verdicts, judge_variants(origin.manifest, isa_, failure));
  return {};
}

// An earlier plugin that has this manifest or one of its libraries. A library's name may be unknown
// still; one that has another name is no alias, but shows that the manifest is stale.
size_t PluginSearch::find_same(const PluginOrigin& origin, std::string_view name) const {
  for (size_t i = 0; i < records_.size(); ++i) {
    if (share_a_file(origins_[i].manifest_files, origin.manifest_files)) return i;
    const bool same_name = records_[i].name.empty() || records_[i].name == name;
    if (same_name && share_a_file(origins_[i].libraries, origin.libraries)) return i;
  }
  return kNone;
}

void PluginSearch::add_alias(size_t index, const std::string& path, const PluginOrigin& origin) {
  records_[index].aliases.push_back(path);
  if (!origin.named) return;
  // Of two wishes for one file, the stricter holds.
  origins_[index].optional = origins_[index].optional && origin.optional;
  if (origins_[index].sha256.empty()) origins_[index].sha256 = origin.sha256;
}

void PluginSearch::merge(size_t index, size_t into) {
  add_alias(into, records_[index].path, origins_[index]);
  records_.erase(records_.begin() + static_cast<std::ptrdiff_t>(index));
  origins_.erase(origins_.begin() + static_cast<std::ptrdiff_t>(index));
}

void PluginSearch::reject(size_t index, LoadFailure failure, Status error) {
  records_[index].state = PluginState::kRejected;
  records_[index].failure = std::move(failure);
  origins_[index].error = std::move(error);
}

}  // namespace encore
