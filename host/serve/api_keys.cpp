#include "serve/api_keys.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "http/ascii.h"

namespace encore {
namespace {

constexpr size_t kMaxKeyBytes = 1000;

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

bool is_printable(char c) { return c > ' ' && c <= '~'; }

Status check_key(std::string_view key, const std::string& where) {
  if (key.empty()) return invalid_argument(where + " is empty");
  if (key.size() > kMaxKeyBytes) {
    return invalid_argument(where + " has " + std::to_string(key.size()) +
                            " bytes; a key has at most " + std::to_string(kMaxKeyBytes));
  }
  if (!std::all_of(key.begin(), key.end(), is_printable)) {
    return invalid_argument(
        where + " has a character that is not printable ASCII; no client could send it");
  }
  return {};
}

bool same(std::string_view given, std::string_view key) {
  if (key.empty()) return false;
  auto difference = static_cast<uint32_t>(given.size() != key.size());
  for (size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<uint32_t>(given[i] ^ key[i % key.size()]);
  }
  return difference == 0;
}

}  // namespace

Result<std::vector<std::string>> load_api_keys(const ServerConfig& config) {
  std::vector<std::string> keys = config.api_keys;
  for (size_t i = 0; i < keys.size(); ++i) {
    ENCORE_RETURN_IF_ERROR(
        check_key(keys[i], "entry " + std::to_string(i + 1) + " of server.api_keys"));
  }
  if (config.api_key_file.empty()) return keys;
  std::ifstream file(config.api_key_file, std::ios::binary);
  if (!file) {
    return invalid_argument("server.api_key_file is " + config.api_key_file +
                            ", which cannot be opened: " + std::strerror(errno));
  }
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string_view key = trim(line);
    if (key.empty()) continue;
    ENCORE_RETURN_IF_ERROR(
        check_key(key, config.api_key_file + ":" + std::to_string(number) + ": the key"));
    keys.emplace_back(key);
  }
  // A file without a key would leave the server open to everybody.
  if (file.bad() || keys.empty()) {
    return invalid_argument("server.api_key_file is " + config.api_key_file +
                            ", which has no key in it; write one a line, or leave the setting out");
  }
  return keys;
}

bool is_authorized(std::string_view authorization, const std::vector<std::string>& keys) {
  if (keys.empty()) return true;
  constexpr std::string_view kScheme = "bearer ";
  if (!equal_ignoring_case(authorization.substr(0, kScheme.size()), kScheme)) return false;
  const std::string_view given = trim(authorization.substr(kScheme.size()));
  bool found = false;
  for (const std::string& key : keys) found = same(given, key) || found;
  return found && !given.empty();
}

}  // namespace encore
