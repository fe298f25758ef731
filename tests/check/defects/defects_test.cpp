// Runs the conformance kit on a plugin and checks which rules fail.
//
//   encore_defects_test CHECK_PROGRAM PLUGIN RULE|none
//   encore_defects_test CHECK_PROGRAM --covered RULE...
//
// Ends with 0 if the kit fails exactly that rule of its family; of all rules, if the environment
// has ENCORE_ALL_RULES, which takes three times as long. The second form ends with 0 if the kit
// has no rule but those and the rules P, which cannot fail.
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

namespace {

struct Run {
  std::string output;
  int exit_code = -1;
};

Run run_command(const std::string& command) {
  Run run;
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return run;
  std::array<char, 4096> buffer{};
  size_t got = 0;
  while ((got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0) {
    run.output.append(buffer.data(), got);
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) run.exit_code = WEXITSTATUS(status);
  return run;
}

// REQUIRES: no argument holds a quote; they come from CMake.
Run run_kit(const std::string& program, const std::string& plugin, const std::string& rules) {
  // The machine may be busy with other tests: one thread each, and time enough. Rules P are left
  // out: they take time and cannot fail by a figure.
  return run_command("'" + program + "' --rules " + rules + " --quick --option threads=1" +
                     " --time-factor 10 --format json -- '" + plugin + "'");
}

// 0 if each rule that the kit lists is among `covered`, or cannot fail.
int judge_cover(const std::string& program, const std::set<std::string>& covered) {
  const Run run = run_command("'" + program + "' --list");
  std::istringstream lines(run.output);
  int listed = 0;
  int missing = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string id = line.substr(0, line.find(' '));
    ++listed;
    if (id.empty() || id[0] == 'P' || covered.count(id) > 0) continue;
    std::printf("no defect is seeded that %s must find\n", line.c_str());
    ++missing;
  }
  std::printf("%d rules are listed, %zu have a defect\n", listed, covered.size());
  return run.exit_code == 0 && listed > 0 && missing == 0 ? 0 : 1;
}

// The number of rules that did not end as they should; each is printed.
int count_surprises(const nlohmann::json& report, const std::string& expected) {
  int surprises = 0;
  bool found = expected == "none";
  for (const auto& rule : report.at("rules")) {
    const auto id = rule.at("id").get<std::string>();
    const bool failed = rule.at("verdict") == "fail";
    const std::string words = failed ? "fails: " : "does not fail: ";
    found |= id == expected;
    std::printf("%s %s %.2f s\n", id.c_str(), rule.at("verdict").get<std::string>().c_str(),
                rule.at("seconds").get<double>());
    if (failed == (id == expected)) {
      if (failed) std::printf("  %s\n", rule.at("message").get<std::string>().c_str());
      continue;
    }
    std::printf("  %s %s%s\n", id.c_str(), words.c_str(),
                rule.at("message").get<std::string>().c_str());
    ++surprises;
  }
  if (!found) std::printf("there is no rule %s\n", expected.c_str());
  return surprises + (found ? 0 : 1);
}

// 0 if the kit fails exactly that rule of those that are run.
int judge(const std::string& program, const std::string& plugin, const std::string& expected) {
  const bool all = expected == "none" || std::getenv("ENCORE_ALL_RULES") != nullptr;
  const std::string family = expected.substr(0, 1);
  const Run run = run_kit(program, plugin, all ? "S,L,N,E,R,G,T" : family);
  const auto report = nlohmann::json::parse(run.output, nullptr, false);
  if (report.is_discarded() || !report.contains("rules") || report.at("rules").empty()) {
    std::printf("the kit gave no report (exit code %d): %s\n", run.exit_code, run.output.c_str());
    return 1;
  }
  const int expected_code = expected == "none" ? 0 : 1;
  if (run.exit_code != expected_code) {
    std::printf("the kit's exit code is %d, expected %d\n", run.exit_code, expected_code);
  }
  return count_surprises(report, expected) == 0 && run.exit_code == expected_code ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool covered = argc > 3 && std::string_view(argv[2]) == "--covered";
  if (argc != 4 && !covered) {
    std::fprintf(stderr, "usage: encore_defects_test CHECK_PROGRAM PLUGIN RULE|none\n");
    return 2;
  }
  try {
    if (covered) return judge_cover(argv[1], {argv + 3, argv + argc});
    return judge(argv[1], argv[2], argv[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "the kit's report makes no sense: %s\n", error.what());
    return 1;
  }
}
