#include "check_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "encore/loader/cpu_isa.h"
#include "encore/loader/manifest.h"
#include "encore/loader/variants.h"
#include "plugin_library.h"
#include "report.h"
#include "rule_process.h"
#include "rule_set.h"

namespace encore::check {
namespace {

constexpr int kExitPassed = 0;
constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

struct Arguments {
  std::string path;
  std::string rules;
  std::vector<std::string> options;
  int32_t device = 0;
  bool quick = false;
  bool list = false;
  std::string format = "text";
  std::string output;
  double time_factor = 1.0;
  std::string run_rule;  // set in the process of one rule
};

void declare(CLI::App& app, Arguments* arguments) {
  app.add_option("PATH", arguments->path, "The plugin: a shared library, or its NAME.plugin.yaml");
  app.add_option("--rules", arguments->rules, "Families and rules to run, for example S,R03");
  app.add_flag("--list", arguments->list, "List all rules and end");
  app.add_option("--option", arguments->options, "backend.options for the plugin, as key=value")
      ->allow_extra_args(false);
  app.add_option("--device", arguments->device, "The device to check")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--quick", arguments->quick, "A tenth of the repetitions");
  app.add_option("--format", arguments->format, "text, json or junit")
      ->check(CLI::IsMember({"text", "json", "junit"}));
  app.add_option("--output", arguments->output, "Write the report to this file");
  app.add_option("--time-factor", arguments->time_factor,
                 "Multiplies each rule's time limit, for a slow or busy machine")
      ->check(CLI::PositiveNumber);
  app.add_option("--run-rule", arguments->run_rule)->group("");
  app.footer("Exit codes: 0 no rule failed, 1 a rule failed, 2 usage.");
}

int usage_error(const std::string& message) {
  std::fprintf(stderr, "encore-plugin-check: %s\nRun `encore-plugin-check --help`.\n",
               message.c_str());
  return kExitUsage;
}

void list_rules() {
  for (const RuleFamily& family : rule_families()) {
    for (const Rule& rule : family.rules) {
      std::printf("%.*s  %.*s\n", static_cast<int>(rule.id.size()), rule.id.data(),
                  static_cast<int>(rule.title.size()), rule.title.data());
    }
  }
}

// The library of a manifest that a host would load here: the variant that an option asks for, or
// the best that the processor can run.
Status resolve_manifest(CheckContext* context) {
  ENCORE_ASSIGN_OR_RETURN(const Manifest manifest, read_manifest(context->plugin_path));
  ENCORE_ASSIGN_OR_RETURN(const auto verdicts, judge_variants(manifest, cpu_isa()));
  std::string forced = "auto";
  for (const auto& [key, value] : context->options) {
    if (!manifest.variant_option.empty() && key == manifest.variant_option) forced = value;
  }
  for (const VariantVerdict& variant : verdicts) {
    const bool wanted =
        forced == "auto" ? variant.state == VariantState::kUntried : variant.name == forced;
    if (!wanted) continue;
    if (variant.state == VariantState::kUntried) {
      context->plugin_path = variant.library;
      return {};
    }
    return invalid_argument("variant " + variant.name + " cannot run here: " + variant.reason);
  }
  return invalid_argument(context->plugin_path + " has no variant '" + forced +
                          "' that can run here");
}

Result<CheckContext> make_context(const Arguments& arguments) {
  CheckContext context;
  if (arguments.path.empty()) return invalid_argument("PATH of the plugin is missing");
  std::error_code error;
  context.plugin_path =
      std::filesystem::absolute(arguments.path, error).lexically_normal().string();
  if (!std::filesystem::exists(context.plugin_path, error)) {
    return invalid_argument("there is no file " + context.plugin_path);
  }
  for (const std::string& option : arguments.options) {
    const size_t equals = option.find('=');
    if (equals == std::string::npos || equals == 0) {
      return invalid_argument("--option is '" + option + "'; it must be key=value");
    }
    context.options.emplace_back(option.substr(0, equals), option.substr(equals + 1));
  }
  ENCORE_ASSIGN_OR_RETURN(context.plugin_path,
                          plugin_library(context.plugin_path, context.options));
  context.device = arguments.device;
  context.quick = arguments.quick;
  if (context.plugin_path.ends_with(".yaml")) ENCORE_RETURN_IF_ERROR(resolve_manifest(&context));
  return context;
}

// What the process of one rule is started with.
std::vector<std::string> child_arguments(const Rule& rule, const CheckContext& context) {
  std::vector<std::string> arguments = {"--run-rule=" + std::string(rule.id),
                                        "--device=" + std::to_string(context.device)};
  if (context.quick) arguments.emplace_back("--quick");
  for (const auto& [key, value] : context.options) {
    arguments.push_back(std::string("--option=").append(key).append("=").append(value));
  }
  arguments.emplace_back("--");
  arguments.push_back(context.plugin_path);
  return arguments;
}

// Shows results as they come: the text itself if it goes to the terminal, and on a terminal's
// error stream the rule at work.
class Progress {
 public:
  Progress(bool show_text, size_t total)
      : show_text_(show_text), show_work_(::isatty(STDERR_FILENO) == 1), total_(total) {}

  void begin(const Rule& rule) {
    ++number_;
    if (!show_work_) return;
    std::fprintf(stderr, "\r\033[K[%zu/%zu] %.*s", number_, total_,
                 static_cast<int>(rule.id.size()), rule.id.data());
  }

  void end(const RuleResult& result) {
    if (show_work_) std::fputs("\r\033[K", stderr);
    if (!show_text_) return;
    const char family = result.rule->id[0];
    std::fputs(text_of_result(result, family != family_).c_str(), stdout);
    std::fflush(stdout);
    family_ = family;
  }

 private:
  bool show_text_;
  bool show_work_;
  size_t total_;
  size_t number_ = 0;
  char family_ = '\0';
};

void run_rules(const std::vector<const Rule*>& rules, const CheckContext& context,
               double time_factor, bool show_text, Report* report) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  Progress progress(show_text, rules.size());
  bool loads = true;
  for (const Rule* rule : rules) {
    progress.begin(*rule);
    RuleResult result{rule, {}, 0.0};
    if (!loads && rule->id[0] != kStaticFamily) {
      result.outcome = skip("the plugin cannot be loaded: see " + std::string(kLoadingRule));
    } else {
      result = run_rule_in_child(*rule, program, child_arguments(*rule, context), time_factor);
    }
    if (rule->id == kLoadingRule) loads = result.outcome.verdict != Verdict::kFail;
    progress.end(result);
    report->results.push_back(std::move(result));
  }
}

std::string formatted(const Report& report, const std::string& format) {
  if (format == "json") return report_json(report);
  if (format == "junit") return report_junit(report);
  return report_text(report);
}

int check(const Arguments& arguments) {
  const Result<CheckContext> context = make_context(arguments);
  if (!context.ok()) return usage_error(context.status().message());
  if (!arguments.run_rule.empty()) {
    const Rule* rule = find_rule(arguments.run_rule);
    if (rule == nullptr) return usage_error("there is no rule " + arguments.run_rule);
    run_rule_here(*rule, *context);
  }
  const Result<std::vector<const Rule*>> rules = select_rules(arguments.rules);
  if (!rules.ok()) return usage_error(rules.status().message());
  Report report{ENCORE_VERSION, context->plugin_path, {}};
  const bool show_text = arguments.format == "text" && arguments.output.empty();
  if (show_text) std::fputs(text_heading(report).c_str(), stdout);
  run_rules(*rules, *context, arguments.time_factor, show_text, &report);
  if (show_text) {
    std::fputs(text_summary(report).c_str(), stdout);
  } else if (arguments.output.empty()) {
    std::fputs(formatted(report, arguments.format).c_str(), stdout);
  } else {
    std::ofstream file(arguments.output, std::ios::binary);
    file << formatted(report, arguments.format);
    if (!file.flush()) return usage_error("cannot write " + arguments.output);
  }
  return count_of(report, Verdict::kFail) == 0 ? kExitPassed : kExitFailed;
}

int run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Checks that a backend plugin keeps the rules of docs/conformance.md.",
               "encore-plugin-check");
  app.set_version_flag("--version", std::string("encore-plugin-check ") + ENCORE_VERSION);
  declare(app, &arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return usage_error(error.what());
  }
  if (!arguments.list) return check(arguments);
  list_rules();
  return kExitPassed;
}

}  // namespace

int check_command(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "encore-plugin-check: %s\n", error.what());
  } catch (...) {
    std::fputs("encore-plugin-check: an unknown exception ended the run\n", stderr);
  }
  return kExitUsage;
}

}  // namespace encore::check
