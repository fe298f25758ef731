#include "config_flags.h"

#include "logging.h"

namespace encore {

void ConfigFlags::declare(CLI::App& verb, File file) {
  CLI::Option* option = verb.add_option("config", file_, "YAML configuration file");
  option->option_text("CONFIG");
  if (file == File::kRequired) option->required();
  verb.add_option("--set", sets_, "Set any key: --set scheduler.max_context=2048; repeatable")
      ->option_text("SECTION.KEY=VALUE")
      ->allow_extra_args(false);
  declare_short_form(verb, "--model", "model.path", "Model file or directory (model.path)");
  verb.add_flag("-v,--verbose", verbose_, "Log at level debug");
  verb.add_flag("-q,--quiet", quiet_, "Log errors only");
}

void ConfigFlags::declare_sampling(CLI::App& verb) {
  declare_short_form(verb, "--max-tokens", "sampling.max_tokens",
                     "Most tokens to generate (sampling.max_tokens)");
  declare_short_form(verb, "--temperature", "sampling.temperature",
                     "0 is greedy (sampling.temperature)");
  declare_short_form(verb, "--seed", "sampling.seed", "Random stream (sampling.seed)");
}

void ConfigFlags::declare_server(CLI::App& verb) {
  declare_short_form(verb, "--host", "server.host", "Address to listen at (server.host)");
  declare_short_form(verb, "--port", "server.port", "0: any free one (server.port)");
  declare_short_form(verb, "--model-name", "server.model_name",
                     "The model's name in the API (server.model_name)");
}

void ConfigFlags::declare_short_form(CLI::App& verb, const std::string& flag,
                                     const std::string& key, const std::string& help) {
  const auto store = [this, flag, key](const std::string& value) {
    settings_.push_back({flag, key, value});
  };
  verb.add_option_function<std::string>(flag, store, help)->option_text("VALUE");
}

Result<LoadedConfig> ConfigFlags::load() const {
  ConfigSources sources;
  sources.file = file_;
  sources.environment = process_environment();
  for (const std::string& text : sets_) {
    ENCORE_ASSIGN_OR_RETURN(ConfigSources::Setting setting, parse_setting("--set", text));
    sources.settings.push_back(std::move(setting));
  }
  sources.settings.insert(sources.settings.end(), settings_.begin(), settings_.end());
  if (verbose_) sources.settings.push_back({"--verbose", "log.level", "debug"});
  if (quiet_) sources.settings.push_back({"--quiet", "log.level", "error"});
  ENCORE_ASSIGN_OR_RETURN(LoadedConfig loaded, load_config(sources));
  set_up_logging(loaded.config.log);
  return loaded;
}

}  // namespace encore
