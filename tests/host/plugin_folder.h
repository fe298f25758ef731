// Folders of plugins, good and bad, as a user might have them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "encore/backend_abi.h"
#include "run_command.h"

namespace encore {

// A folder to be named in plugins.dirs.
class PluginFolder {
 public:
  explicit PluginFolder(const std::string& name) : path_(make_folder(name)) {}

  const std::string& path() const { return path_; }

  // A plugin that is a text file.
  void add_broken(const std::string& name) {
    write(name + ".so", "this is no library\n");
    add_manifest(name, "Acme", "9.9", name + ".so");
  }

  // A copy of a plugin that the tests built, with a manifest that fits it.
  void add_library(const std::string& name, const std::string& library) {
    const std::filesystem::path target = std::filesystem::path(path_) / (name + ".so");
    std::filesystem::copy_file(library, target);
    std::filesystem::permissions(target, kMode);
    add_manifest(name, "Acme", "2.0", name + ".so");
  }

  // A configuration that searches the folder.
  std::string configuration(const std::string& more = "") const {
    return write_temporary(std::filesystem::path(path_).filename().string() + ".yaml",
                           "plugins: {dirs: [" + path_ + "]}\n" + more);
  }

 private:
  static constexpr auto kMode = std::filesystem::perms::owner_all;

  void add_manifest(const std::string& name, const std::string& vendor, const std::string& version,
                    const std::string& library) {
    write(name + ".plugin.yaml",
          "manifest: 1\nname: " + name + "\nvendor: " + vendor + "\nversion: \"" + version +
              "\"\nabi: \"" + std::to_string(ENCORE_ABI_MAJOR) + "." +
              std::to_string(ENCORE_ABI_MINOR) + "\"\nlibrary: " + library + "\n");
  }
  void write(const std::string& file, const std::string& text) {
    const std::filesystem::path target = std::filesystem::path(path_) / file;
    std::ofstream(target) << text;
    std::filesystem::permissions(target, kMode);
  }

  std::string path_;
};

// What a command printed, as JSON; the test fails if it is none.
inline nlohmann::json json_of(const CommandResult& result) {
  nlohmann::json json = nlohmann::json::parse(result.out, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << result.out << result.err;
  return json;
}

// The element of an array of objects that has that name; null if there is none.
inline nlohmann::json named(const nlohmann::json& array, const std::string& name,
                            const char* key = "name") {
  for (const nlohmann::json& element : array) {
    if (element.at(key) == name) return element;
  }
  return {};
}

// The keys of an object, in order.
inline std::vector<std::string> keys_of(const std::string& text, const std::string& pointer) {
  const auto json = nlohmann::ordered_json::parse(text);
  std::vector<std::string> keys;
  const auto& object = json.at(nlohmann::ordered_json::json_pointer(pointer));
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

}  // namespace encore
