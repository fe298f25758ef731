#include "permissions.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string_view>
#include <vector>

#include "stage_error.h"

namespace encore {
namespace {

constexpr int kMaxLinks = 40;  // as the kernel's

std::string user_text(uid_t user) {
  struct passwd entry = {};
  struct passwd* found = nullptr;
  std::array<char, 4096> buffer;
  std::string number = std::to_string(user);
  if (::getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) {
    return number;
  }
  return std::string(found->pw_name) + " (" + number + ")";
}

std::string mode_text(mode_t mode) {
  std::array<char, 16> text;
  std::snprintf(text.data(), text.size(), "%04o", static_cast<unsigned>(mode & 07777));
  return text.data();
}

bool is_trusted(uid_t owner) { return owner == 0 || owner == ::geteuid(); }

bool is_writable_by_others(mode_t mode) { return (mode & (S_IWGRP | S_IWOTH)) != 0; }

// Who may own what leads to a plugin.
std::string trusted_text() {
  return ::geteuid() == 0 ? "only root may"
                          : "only root and " + user_text(::geteuid()) + ", who runs this, may";
}

Status wrong_owner(LoadCode* out, LoadCode code, const std::string& what, uid_t owner) {
  return stage_error(out, code,
                     failed_precondition(what + " is owned by " + user_text(owner) +
                                         ", who could change the plugin; " + trusted_text() +
                                         ": chown it, or move the plugin"));
}

Status too_open(LoadCode* out, LoadCode code, const std::string& what, const std::string& path,
                mode_t mode) {
  return stage_error(
      out, code,
      failed_precondition(what + " has mode " + mode_text(mode) +
                          ": group or others could change the plugin; chmod go-w " + path));
}

// `next` is what is taken from the folder, under `name`.
Status check_folder(const std::string& folder, const std::string& name, const struct stat& next,
                    LoadCode* code) {
  struct stat status = {};
  if (::lstat(folder.c_str(), &status) != 0) {
    return stage_error(code, LoadCode::kPathUnreadable,
                       not_found("folder " + folder + ": " + std::strerror(errno)));
  }
  if (!is_trusted(status.st_uid)) {
    return wrong_owner(code, LoadCode::kFolderOwner, "folder " + folder, status.st_uid);
  }
  if (!is_writable_by_others(status.st_mode)) return {};
  if ((status.st_mode & S_ISVTX) != 0) {
    if (is_trusted(next.st_uid)) return {};
    return wrong_owner(code, LoadCode::kFolderWritable,
                       "folder " + folder + " is for everybody, and " + name + " in it",
                       next.st_uid);
  }
  return too_open(code, LoadCode::kFolderWritable, "folder " + folder, folder, status.st_mode);
}

Status check_file(const std::string& path, const struct stat& status, LoadCode* code) {
  if (!is_trusted(status.st_uid)) {
    return wrong_owner(code, LoadCode::kFileOwner, "the file " + path, status.st_uid);
  }
  if (!is_writable_by_others(status.st_mode)) return {};
  return too_open(code, LoadCode::kFileWritable, "the file " + path, path, status.st_mode);
}

std::vector<std::string> components(std::string_view path) {
  std::vector<std::string> names;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view name = path.substr(0, slash);
    if (!name.empty() && name != ".") names.emplace_back(name);
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  }
  return names;
}

Result<std::string> read_link(const std::string& path, LoadCode* code) {
  std::array<char, PATH_MAX> target;
  const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  if (size > 0) return std::string(target.data(), static_cast<size_t>(size));
  return stage_error(code, LoadCode::kPathUnreadable,
                     not_found("link " + path + ": " + std::strerror(errno)));
}

}  // namespace

Result<std::string> check_permissions(const std::string& path, LoadCode* code) {
  std::string resolved;  // empty: the root
  const std::vector<std::string> first = components(path);
  std::deque<std::string> ahead(first.begin(), first.end());
  struct stat status = {};
  int links = 0;
  while (!ahead.empty()) {
    const std::string name = std::move(ahead.front());
    ahead.pop_front();
    if (name == "..") {  // `resolved` has no links, so its parent is what it says
      resolved.erase(resolved.empty() ? 0 : resolved.rfind('/'));
      continue;
    }
    std::string entry = resolved;
    entry.append("/").append(name);
    if (::lstat(entry.c_str(), &status) != 0) {
      return stage_error(code, LoadCode::kPathMissing,
                         not_found(entry + ": " + std::strerror(errno)));
    }
    ENCORE_RETURN_IF_ERROR(check_folder(resolved.empty() ? "/" : resolved, name, status, code));
    if (!S_ISLNK(status.st_mode)) {
      resolved = std::move(entry);
      continue;
    }
    if (++links > kMaxLinks) {
      return stage_error(code, LoadCode::kPathLoop, not_found("it has more than 40 links"));
    }
    ENCORE_ASSIGN_OR_RETURN(const std::string target, read_link(entry, code));
    if (target.starts_with('/')) resolved.clear();
    const std::vector<std::string> names = components(target);
    ahead.insert(ahead.begin(), names.begin(), names.end());
  }
  if (!S_ISREG(status.st_mode)) {
    return stage_error(code, LoadCode::kPathNotAFile, not_found("it is not a regular file"));
  }
  ENCORE_RETURN_IF_ERROR(check_file(resolved, status, code));
  return resolved;
}

}  // namespace encore
