// Reads a `Config`: flags beat environment beats file beats defaults.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "encore/config.h"
#include "encore/status.h"

namespace encore {

// Where values may come from. All may be empty.
struct ConfigSources {
  std::string file;  // path of a YAML file
  // All variables of the process, or some. Those named ENCORE_<SECTION>__<KEY> are read (for
  // options of a backend ENCORE_BACKEND__OPTIONS__<OPTION>); others are ignored.
  std::vector<std::pair<std::string, std::string>> environment;
  // From the command line: "scheduler.max_context=2048", with the flag for messages ("--set").
  struct Setting {
    std::string flag;
    std::string key;
    std::string value;
  };
  std::vector<Setting> settings;
};

struct LoadedConfig {
  Config config;
  // Where each key that is not at its default was last written: "configs/a.yaml:3",
  // "ENCORE_KV_CACHE__DTYPE", "--set kv_cache.dtype". Backend options: "backend.options.KEY".
  std::map<std::string, std::string> origins;

  // The key's origin, or "default".
  std::string origin(const std::string& key) const;
};

// Errors: kNotFound if the file cannot be read; kInvalidArgument for anything wrong in it, in a
// variable or in a setting: unknown keys, duplicates, types and ranges. The message names place,
// key, value, limit and the nearest known key.
Result<LoadedConfig> load_config(const ConfigSources& sources);

// The file part alone, from memory. `name` stands for the file in messages and its folder is what
// relative paths start from.
Status apply_yaml(std::string_view text, const std::string& name, LoadedConfig& loaded);

// The process's environment, for ConfigSources.
std::vector<std::pair<std::string, std::string>> process_environment();

// "key=value" as a setting. Errors: kInvalidArgument if there is no '=' or no key.
Result<ConfigSources::Setting> parse_setting(const std::string& flag, std::string_view text);

}  // namespace encore
