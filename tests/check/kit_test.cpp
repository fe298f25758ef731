// The kit itself: choosing rules, processes that end badly, reports, and the document of the rules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "outcome_text.h"
#include "report.h"
#include "rule_process.h"
#include "rule_set.h"

namespace encore::check {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr Rule kRule = {"S99", "A rule of the test", nullptr, 30};

RuleResult run_shell(const std::string& script, const Rule& rule = kRule) {
  return run_rule_in_child(rule, "/bin/sh", {"-c", script}, 1.0);
}

std::vector<std::string> ids_of(std::string_view list) {
  const auto rules = select_rules(list);
  EXPECT_TRUE(rules.ok()) << rules.status().to_string();
  std::vector<std::string> ids;
  if (!rules.ok()) return ids;
  for (const Rule* rule : *rules) ids.emplace_back(rule->id);
  return ids;
}

TEST(RuleProcess, OutcomeComesBackWhole) {
  const RuleResult result = run_shell(
      R"(printf '{"verdict":2,"message":"why","measurements":[{"name":"n","value":1.5,"unit":"u"}]}' >&3)");
  EXPECT_EQ(result.outcome.verdict, Verdict::kSkip);
  EXPECT_EQ(result.outcome.message, "why");
  ASSERT_EQ(result.outcome.measurements.size(), 1U);
  EXPECT_EQ(result.outcome.measurements[0].value, 1.5);
}

TEST(RuleProcess, CrashIsAFailureWithTheSignalAndTheLastWords) {
  const RuleResult result = run_shell("echo out of my mind >&2; kill -SEGV $$");
  EXPECT_EQ(result.outcome.verdict, Verdict::kFail);
  EXPECT_THAT(result.outcome.message, StartsWith("the process crashed with SIGSEGV"));
  EXPECT_THAT(result.outcome.message, HasSubstr("out of my mind"));
}

TEST(RuleProcess, ExitIsAFailureWithTheCode) {
  const RuleResult result = run_shell("exit 3");
  EXPECT_EQ(result.outcome.verdict, Verdict::kFail);
  EXPECT_THAT(result.outcome.message, StartsWith("the process exited with code 3"));
}

TEST(RuleProcess, HangIsAFailureAtItsLimit) {
  constexpr Rule kShort = {"S98", "A rule of the test", nullptr, 1};
  const RuleResult result = run_shell("sleep 600", kShort);
  EXPECT_EQ(result.outcome.verdict, Verdict::kFail);
  EXPECT_THAT(result.outcome.message, StartsWith("did not end within 1 s and was killed"));
  EXPECT_LT(result.seconds, 60.0);
}

TEST(RuleProcess, GarbageIsAFailure) {
  const RuleResult result = run_shell("echo garbage >&3");
  EXPECT_EQ(result.outcome.verdict, Verdict::kFail);
  EXPECT_THAT(result.outcome.message, StartsWith("its outcome cannot be read"));
}

TEST(RuleProcess, MissingProgramIsAFailure) {
  const RuleResult result = run_rule_in_child(kRule, "/no/such/program", {}, 1.0);
  EXPECT_EQ(result.outcome.verdict, Verdict::kFail);
  EXPECT_THAT(result.outcome.message, HasSubstr("No such file"));
}

TEST(RuleSet, FamiliesAndRulesAreChosenOnceInTheirOrder) {
  EXPECT_EQ(ids_of("s02,S01,S02"), (std::vector<std::string>{"S01", "S02"}));
  EXPECT_EQ(ids_of("N03"), (std::vector<std::string>{"L01", "N03"}));
  EXPECT_EQ(ids_of("S").size(), static_rules().size());
}

TEST(RuleSet, UnknownNameIsRefused) {
  const auto rules = select_rules("S01,X07");
  EXPECT_EQ(rules.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(rules.status().message(), StartsWith("--rules names 'X07'"));
}

TEST(RuleSet, IdsAreUniqueAndOfTheirFamily) {
  std::set<std::string_view> seen;
  for (const RuleFamily& family : rule_families()) {
    for (const Rule& rule : family.rules) {
      EXPECT_TRUE(seen.insert(rule.id).second) << rule.id;
      EXPECT_EQ(rule.id[0], family.letter);
      EXPECT_EQ(rule.id.size(), 3U) << rule.id;
      EXPECT_NE(rule.run, nullptr) << rule.id;
    }
  }
}

Report sample_report() {
  Report report{"1", "/dir/a&b<c>.so", {}};
  report.results.push_back({&kRule, pass(), 0.25});
  report.results.push_back({&kRule, fail("expected <1> & \"2\"\nfound \x01 and \xFF"), 1.0});
  report.results.push_back({&kRule, skip("no device"), 0.0});
  report.results[0].outcome.measurements.push_back({"speed", 12.5, "tokens/s"});
  return report;
}

TEST(Report, TextEndsWithTheCounts) {
  const std::string text = report_text(sample_report());
  EXPECT_THAT(text, HasSubstr("see docs/conformance.md#s99"));
  EXPECT_THAT(text, HasSubstr("speed: 12.5 tokens/s"));
  EXPECT_TRUE(text.ends_with("\n1 passed, 1 failed, 1 skipped\n")) << text;
}

TEST(Report, JsonParses) {
  const auto json = nlohmann::json::parse(report_json(sample_report()));
  EXPECT_EQ(json.at("passed"), 1);
  EXPECT_EQ(json.at("failed"), 1);
  EXPECT_EQ(json.at("skipped"), 1);
  EXPECT_EQ(json.at("rules").at(1).at("verdict"), "fail");
  EXPECT_EQ(json.at("rules").at(0).at("measurements").at(0).at("unit"), "tokens/s");
}

// Whether tags nest and all that is special is escaped: as much of XML as JUnit files need.
testing::AssertionResult is_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at)) {
    const size_t end = xml.find('>', at);
    if (end == std::string::npos) return testing::AssertionFailure() << "a tag does not end";
    const std::string tag = xml.substr(at + 1, end - at - 1);
    at = end;
    if (tag.find('<') != std::string::npos) return testing::AssertionFailure() << "'<' in " << tag;
    if (tag.starts_with("?") || tag.ends_with("/")) continue;
    if (!tag.starts_with("/")) {
      open.push_back(tag.substr(0, tag.find(' ')));
    } else if (open.empty() || open.back() != tag.substr(1)) {
      return testing::AssertionFailure() << tag << " closes nothing";
    } else {
      open.pop_back();
    }
  }
  if (!open.empty()) return testing::AssertionFailure() << open.back() << " stays open";
  for (const char c : xml) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n') {
      return testing::AssertionFailure() << "a control character";
    }
  }
  return testing::AssertionSuccess();
}

TEST(Report, JunitIsWellFormed) {
  const std::string xml = report_junit(sample_report());
  EXPECT_TRUE(is_well_formed(xml)) << xml;
  EXPECT_THAT(xml, HasSubstr("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""));
  EXPECT_THAT(xml, HasSubstr("expected &lt;1&gt; &amp; &quot;2&quot;&#10;found ?"));
}

int exit_code(const std::string& arguments) {
  const std::string command =
      std::string("'") + ENCORE_CHECK_PROGRAM + "' " + arguments + " >/dev/null 2>&1";
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(CheckCommand, ExitCodesSayWhatWentWrong) {
  EXPECT_EQ(exit_code("--list"), 0);
  EXPECT_EQ(exit_code("--help"), 0);
  EXPECT_EQ(exit_code(""), 2);
  EXPECT_EQ(exit_code("--no-such-flag"), 2);
  EXPECT_EQ(exit_code("/no/such/plugin.so"), 2);
  EXPECT_EQ(exit_code("--rules=X01 /bin/sh"), 2);
  EXPECT_EQ(exit_code("--option=novalue /bin/sh"), 2);
  EXPECT_EQ(exit_code("--format=xml /bin/sh"), 2);
  EXPECT_EQ(exit_code("--rules=S01 /bin/sh"), 1);  // whole, but no plugin
}

TEST(Conformance, EveryRuleHasItsEntryAndEveryEntryItsRule) {
  std::ifstream file(ENCORE_CONFORMANCE_DOCUMENT);
  ASSERT_TRUE(file) << ENCORE_CONFORMANCE_DOCUMENT;
  std::set<std::string> entries;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("### ")) continue;
    EXPECT_TRUE(entries.insert(line.substr(4)).second) << line << " is there twice";
  }
  for (const RuleFamily& family : rule_families()) {
    for (const Rule& rule : family.rules) {
      EXPECT_EQ(entries.erase(std::string(rule.id)), 1U)
          << "docs/conformance.md explains no " << rule.id << ": " << rule.title;
    }
  }
  EXPECT_THAT(entries, testing::IsEmpty()) << "docs/conformance.md explains rules that are not";
}

}  // namespace
}  // namespace encore::check
