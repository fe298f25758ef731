#include "verdict_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "sha256.h"

namespace encore {
namespace {

constexpr std::string_view kFirstLine = "encore plugin verdict 1\n";
constexpr size_t kMaxKeyBytes = size_t{1} << 20;

std::string time_text(const struct timespec& time) {
  return std::to_string(time.tv_sec) + "." + std::to_string(time.tv_nsec);
}

// Empty if there is no such file.
std::string file_text(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return {};
  return path + " device " + std::to_string(status.st_dev) + " inode " +
         std::to_string(status.st_ino) + " size " + std::to_string(status.st_size) + " mtime " +
         time_text(status.st_mtim) + " ctime " + time_text(status.st_ctim);
}

std::string boot_id() {
  std::ifstream stream("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(stream, id);
  return id;
}

bool is_ours_alone(const struct stat& status) {
  return status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Makes the folder, private, if it is not there; whether it can be trusted.
bool prepare_folder(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(folder).parent_path();
  std::filesystem::create_directories(parent, error);
  if (error) return false;
  ::mkdir(folder.c_str(), 0700);
  struct stat status = {};
  return ::lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && is_ours_alone(status);
}

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(descriptor, bytes.data(), bytes.size());
    if (done <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(done));
  }
  return true;
}

}  // namespace

std::string default_verdict_folder() {
  for (const auto& [variable, below] :
       {std::pair("XDG_CACHE_HOME", "/encore"), std::pair("HOME", "/.cache/encore")}) {
    const char* value = std::getenv(variable);
    if (value != nullptr && value[0] == '/') return std::string(value) + below;
  }
  return {};
}

std::string verdict_key(const std::string& real_path, const std::string& probe_program,
                        const HostInfo& host, const PluginLoadOptions& options) {
  const std::string plugin = file_text(real_path);
  const std::string program = file_text(probe_program);
  if (plugin.empty() || program.empty()) return {};
  // The first two parts name the cache's file; see file_of().
  std::string key(kFirstLine);
  key += "plugin " + real_path + "\n";
  for (const auto& [name, value] : options.probe_options) {
    key.append("option ").append(name).append("=").append(value).append("\n");
  }
  key += "\nfile " + plugin + "\nprobe " + program + "\nhost " + host.version + "\nboot " +
         boot_id() + "\n";
  return key.size() <= kMaxKeyBytes ? key : std::string();
}

// The same for every state of one plugin and options, so that the folder does not grow for ever.
std::string VerdictCache::file_of(const std::string& key) const {
  const std::string name = sha256_of_text(std::string_view(key).substr(0, key.find("\n\n")));
  return folder_ + "/plugin-" + name.substr(0, 32);
}

bool VerdictCache::holds(const std::string& key) const {
  if (folder_.empty() || key.empty()) return false;
  struct stat status = {};
  if (::lstat(folder_.c_str(), &status) != 0 || !is_ours_alone(status)) return false;
  const int file = ::open(file_of(key).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return false;
  std::string found(key.size(), '\0');
  const bool same = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
                    is_ours_alone(status) && status.st_size == static_cast<off_t>(key.size()) &&
                    ::read(file, found.data(), found.size()) == static_cast<ssize_t>(key.size()) &&
                    found == key;
  ::close(file);
  return same;
}

bool VerdictCache::remember(const std::string& key) const {
  if (folder_.empty() || key.empty() || !prepare_folder(folder_)) return false;
  std::string temporary = folder_ + "/new-XXXXXX";
  const int file = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (file < 0) return false;
  bool written = write_all(file, key);
  written = ::close(file) == 0 && written;
  if (written && ::rename(temporary.c_str(), file_of(key).c_str()) == 0) return true;
  ::unlink(temporary.c_str());
  return false;
}

}  // namespace encore
