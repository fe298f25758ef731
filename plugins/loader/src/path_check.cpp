#include "path_check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "sha256.h"
#include "stage_error.h"

namespace encore {
namespace {

Status cannot_stat(const std::string& path, int error, LoadCode* code) {
  if (error == ELOOP) {
    return stage_error(code, LoadCode::kPathLoop,
                       not_found("its symbolic links lead back to each other, or are more than 40; "
                                 "put the links right"));
  }
  if (error != ENOENT && error != ENOTDIR) {
    return stage_error(code, LoadCode::kPathUnreadable,
                       not_found(std::string("it cannot be looked at: ") + std::strerror(error)));
  }
  std::error_code not_a_link;
  const std::filesystem::path target = std::filesystem::read_symlink(path, not_a_link);
  if (!not_a_link) {
    return stage_error(code, LoadCode::kPathMissing,
                       not_found("it is a symbolic link to " + target.string() +
                                 ", which does not exist; put the link right"));
  }
  return stage_error(code, LoadCode::kPathMissing, not_found(std::strerror(error)));
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "something else";
}

bool is_sha256(const std::string& text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

Status check_path(const std::string& path, LoadCode* code) {
  if (!path.starts_with('/')) {
    return stage_error(
        code, LoadCode::kPathRelative,
        invalid_argument("the path is relative; give an absolute one (paths in a configuration are "
                         "resolved against its file, never the working directory)"));
  }
  if (path.find('\0') != std::string::npos) {
    return stage_error(code, LoadCode::kPathMissing, not_found("the path has a zero byte in it"));
  }
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return cannot_stat(path, errno, code);
  if (!S_ISREG(status.st_mode)) {
    return stage_error(code, LoadCode::kPathNotAFile,
                       not_found(std::string("it is ") + kind_of(status.st_mode) +
                                 ", not a regular file; name the plugin's library"));
  }
  if (::faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) != 0) {
    return stage_error(code, LoadCode::kPathUnreadable,
                       not_found(std::string("this user cannot read it: ") + std::strerror(errno) +
                                 "; chmod a+r it"));
  }
  return {};
}

Status check_checksum(const std::string& path, const std::string& expected, LoadCode* code) {
  std::string wanted = expected;
  for (char& c : wanted) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  }
  if (!is_sha256(wanted)) {
    return stage_error(code, LoadCode::kChecksum,
                       invalid_argument("sha256 is '" + expected.substr(0, 80) +
                                        "'; it has 64 hexadecimal digits"));
  }
  const Result<std::string> found = sha256_of_file(path);
  if (!found.ok()) return stage_error(code, LoadCode::kPathUnreadable, found.status());
  if (*found == wanted) return {};
  return stage_error(code, LoadCode::kChecksum,
                     data_loss("its SHA-256 is " + *found + ", not " + wanted +
                               " as asked for; get the file again, or correct sha256"));
}

}  // namespace encore
