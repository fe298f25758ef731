#include "tuning_file.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

namespace encore::gpu {
namespace {

using nlohmann::json;

constexpr int32_t kFormat = 1;
constexpr uintmax_t kMaxFileBytes = 16 << 20;

// A file name that a person can read: letters, digits, dots and single dashes.
std::string file_name(const std::string& list, const std::string& identity) {
  std::string name = list + "-";
  for (const char c : identity) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (plain || c == '.') {
      name += c;
    } else if (name.back() != '-') {
      name += '-';
    }
  }
  return name + ".json";
}

// Beside the file, and nobody else's.
std::filesystem::path draft_of(std::filesystem::path path) {
  static std::atomic<int> drafts = 0;
  path += '.';
  path += std::to_string(::getpid());
  path += '-';
  path += std::to_string(drafts++);
  return path;
}

}  // namespace

std::filesystem::path default_tuning_folder() {
  // Relative paths there are to be ignored (XDG base directory specification, section 2).
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::filesystem::path(cache) / "encore";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::filesystem::path(home) / ".cache/encore";
  return {};
}

TuningFile::TuningFile(const std::filesystem::path& folder, std::string list, std::string identity)
    : list_(std::move(list)), identity_(std::move(identity)) {
  if (!folder.empty()) path_ = folder / file_name(list_, identity_);
}

Status TuningFile::damaged(std::string_view why) const {
  return data_loss(path_.string() + ": " + std::string(why) +
                   "; it is ignored and will be replaced");
}

bool TuningFile::exists() const {
  std::error_code error;
  return !path_.empty() && std::filesystem::exists(path_, error);
}

Result<json> TuningFile::load() const {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path_, error);
  if (error) return damaged(error.message());
  if (bytes > kMaxFileBytes) {
    return damaged("it has " + std::to_string(bytes) + " bytes; at most " +
                   std::to_string(kMaxFileBytes) + " are read");
  }
  std::ifstream stream(path_, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (!stream) return damaged("it cannot be read");
  const json file = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!file.is_object()) return damaged("it is not a JSON object");
  if (file.value("format", json()) != json(kFormat)) {
    return damaged("its format is not " + std::to_string(kFormat));
  }
  if (file.value("identity", json()) != json(identity_)) {
    return damaged("it is not for " + identity_);
  }
  const auto entries = file.find(list_);
  if (entries == file.end() || !entries->is_array()) return damaged("it lists no " + list_);
  return *entries;
}

Status TuningFile::not_kept(const std::string& why) const {
  return unavailable("cannot keep tuning results in " + path_.string() + ": " + why);
}

Result<FolderLock> TuningFile::lock() const {
  std::error_code error;
  std::filesystem::create_directories(path_.parent_path(), error);
  if (error) return not_kept(error.message());
  Result<FolderLock> taken = FolderLock::take(path_.parent_path());
  if (!taken.ok()) return not_kept(taken.status().message());
  return taken;
}

Status TuningFile::save(json entries) const {
  const json file = {{"format", kFormat}, {"identity", identity_}, {list_, std::move(entries)}};
  std::error_code error;
  // Complete under another name first: whoever reads meanwhile finds the old file or the new one.
  const std::filesystem::path draft = draft_of(path_);
  {
    std::ofstream out(draft, std::ios::binary | std::ios::trunc);
    out << file.dump(1, ' ', false, json::error_handler_t::replace) << '\n';
    out.close();
    if (!out) {
      std::filesystem::remove(draft, error);
      return not_kept("the file cannot be written");
    }
  }
  std::filesystem::rename(draft, path_, error);
  if (!error) return {};
  const std::string why = error.message();
  std::filesystem::remove(draft, error);
  return not_kept(why);
}

}  // namespace encore::gpu
