// The verbs of the command line; each is declared and run in one file, <verb>_verb.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace encore {

// What the chosen verb does once the whole command line has been read; returns the exit code.
using VerbAction = std::function<int()>;

// Each declares its verb; if the verb is chosen, `action` is set while the command line is read.
void declare_run(CLI::App& app, VerbAction& action);
void declare_chat(CLI::App& app, VerbAction& action);
void declare_serve(CLI::App& app, VerbAction& action);
void declare_bench(CLI::App& app, VerbAction& action);
void declare_graphs(CLI::App& app, VerbAction& action);
void declare_plugins(CLI::App& app, VerbAction& action);
void declare_devices(CLI::App& app, VerbAction& action);
void declare_doctor(CLI::App& app, VerbAction& action);
void declare_config(CLI::App& app, VerbAction& action);

}  // namespace encore
