#include "command_line.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "config/suggest.h"
#include "exit_code.h"
#include "logging.h"
#include "verbs.h"

namespace encore {
namespace {

// What CLI11 says, and the nearest verb if the first word is not one.
int report_usage(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  std::string message = error.what();
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands({})) verbs.push_back(verb->get_name());
  const std::string word = argc > 1 ? argv[1] : "";
  const bool is_verb = std::find(verbs.begin(), verbs.end(), word) != verbs.end();
  if (!word.empty() && word[0] != '-' && !is_verb) {
    const std::string near = nearest(word, verbs);
    message = "unknown verb \"" + word + "\"";
    if (!near.empty()) message += "; did you mean \"" + near + "\"?";
  }
  std::fprintf(stderr, "encore: %s\nRun `encore --help` or `encore VERB --help`.\n",
               message.c_str());
  return kExitUsage;
}

int run(int argc, char** argv) {
  CLI::App app("Encore serves large language models: it captures a model once and replays it.");
  app.set_version_flag("--version", std::string("encore ") + ENCORE_VERSION);
  app.require_subcommand(1);
  VerbAction action;
  declare_run(app, action);
  declare_chat(app, action);
  declare_serve(app, action);
  declare_bench(app, action);
  declare_graphs(app, action);
  declare_plugins(app, action);
  declare_devices(app, action);
  declare_doctor(app, action);
  declare_config(app, action);
  app.footer("Exit codes: 0 ok, 1 run-time failure, 2 usage or configuration, 130 interrupted.");
  set_up_logging({});
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return report_usage(app, error, argc, argv);
  }
  return action();
}

}  // namespace

int command_line(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "encore: %s\n", error.what());
  } catch (...) {
    std::fputs("encore: an unknown exception ended the run\n", stderr);
  }
  return kExitFailure;
}

}  // namespace encore
