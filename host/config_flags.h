// The flags that every verb with a configuration shares.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "config/config_loader.h"
#include "encore/status.h"

namespace encore {

// Declares CONFIG, --set and the short forms, and later reads what they said.
class ConfigFlags {
 public:
  enum class File { kRequired, kOptional };

  void declare(CLI::App& verb, File file);
  // --max-tokens, --temperature, --seed and --stop: for verbs that generate text.
  void declare_sampling(CLI::App& verb);
  // --host, --port and --model-name: for verbs that listen.
  void declare_server(CLI::App& verb);

  // Flags beat environment beat file beat defaults; also sets up logging.
  // Errors: those of load_config.
  Result<LoadedConfig> load() const;

  const std::string& file() const { return file_; }

 private:
  // A flag that is the short form of a key.
  void declare_short_form(CLI::App& verb, const std::string& flag, const std::string& key,
                          const std::string& help);

  std::string file_;
  std::vector<std::string> sets_;
  std::vector<ConfigSources::Setting> settings_;  // from short forms
  bool verbose_ = false;
  bool quiet_ = false;
};

}  // namespace encore
