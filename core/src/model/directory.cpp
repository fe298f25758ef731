#include "model/directory.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "model/printable.h"

namespace encore {

std::string join_path(const std::string& directory, const std::string& name) {
  if (directory.empty() || directory.back() == '/') return directory + name;
  return directory + "/" + name;
}

bool is_directory(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

bool is_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

Result<std::vector<std::string>> list_files(const std::string& directory, std::string_view suffix) {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.ends_with(suffix) && is_file(join_path(directory, name))) {
      names.push_back(std::move(name));
    }
  }
  if (error) {
    return invalid_argument(
        concat_message("cannot list directory ", printable(directory), ": ", error.message()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace encore
