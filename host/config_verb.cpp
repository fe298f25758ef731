// encore config check FILE: reads a configuration and says what it means.
// encore config keys: the reference of all keys, as Markdown.
#include <cstdio>
#include <memory>

#include "config/reference.h"
#include "config_flags.h"
#include "exit_code.h"
#include "logging.h"
#include "verbs.h"

namespace encore {
namespace {

int check(const ConfigFlags& flags) {
  const Result<LoadedConfig> loaded = flags.load();
  if (!loaded.ok()) {
    report_error(loaded.status());
    return kExitUsage;
  }
  std::fputs(describe_config(*loaded).c_str(), stdout);
  return kExitOk;
}

}  // namespace

void declare_config(CLI::App& app, VerbAction& action) {
  CLI::App* config = app.add_subcommand("config", "Check a configuration; list its keys");
  config->require_subcommand(1);

  auto flags = std::make_shared<ConfigFlags>();
  CLI::App* check_verb = config->add_subcommand("check", "Read a configuration and print it");
  flags->declare(*check_verb, ConfigFlags::File::kRequired);
  check_verb->callback([flags, &action] { action = [flags] { return check(*flags); }; });

  CLI::App* keys = config->add_subcommand("keys", "List all keys, as Markdown");
  keys->callback([&action] {
    action = [] {
      std::fputs(config_reference_markdown().c_str(), stdout);
      return kExitOk;
    };
  });
}

}  // namespace encore
