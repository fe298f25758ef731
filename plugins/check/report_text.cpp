#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "outcome_text.h"
#include "report.h"
#include "rule_set.h"

namespace encore::check {
namespace {

constexpr size_t kLineBytes = 100;
constexpr std::string_view kIndent = "      ";

std::string seconds_text(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%7.2f s", seconds);
  return text.data();
}

std::string number_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

// `text` in indented lines, broken at spaces.
std::string wrapped(std::string_view text) {
  std::string lines;
  const size_t room = kLineBytes - kIndent.size();
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    if (end > room) {
      const size_t space = text.substr(0, room).rfind(' ');
      end = space == std::string_view::npos || space == 0 ? room : space;
    }
    lines.append(kIndent).append(text.substr(0, end)).append("\n");
    text.remove_prefix(end);
    if (!text.empty() && (text[0] == ' ' || text[0] == '\n')) text.remove_prefix(1);
  }
  return lines;
}

std::string_view family_title(char letter) {
  for (const RuleFamily& family : rule_families()) {
    if (family.letter == letter) return family.title;
  }
  return "";
}

}  // namespace

int64_t count_of(const Report& report, Verdict verdict) {
  return std::count_if(report.results.begin(), report.results.end(),
                       [&](const RuleResult& r) { return r.outcome.verdict == verdict; });
}

std::string text_heading(const Report& report) {
  return "encore-plugin-check " + report.kit_version + ": " + report.plugin_path + "\n";
}

std::string text_of_result(const RuleResult& result, bool first_of_family) {
  const Outcome& outcome = result.outcome;
  std::string text;
  if (first_of_family) {
    const char letter = result.rule->id[0];
    text.append("\n").append(1, letter).append("  ").append(family_title(letter)).append("\n");
  }
  std::string verdict(verdict_name(outcome.verdict));
  if (outcome.verdict == Verdict::kFail) verdict = "FAIL";
  text.append("  ").append(result.rule->id).append("  ").append(verdict);
  text.append(seconds_text(result.seconds)).append("  ").append(result.rule->title).append("\n");
  if (!outcome.message.empty()) text += wrapped(outcome.message);
  if (outcome.verdict == Verdict::kFail) text += wrapped("see " + documentation_of(*result.rule));
  for (const Measurement& measurement : outcome.measurements) {
    text +=
        wrapped(measurement.name + ": " + number_text(measurement.value) + " " + measurement.unit);
  }
  return text;
}

std::string text_summary(const Report& report) {
  std::string text = "\n";
  text.append(std::to_string(count_of(report, Verdict::kPass))).append(" passed, ");
  text.append(std::to_string(count_of(report, Verdict::kFail))).append(" failed, ");
  return text.append(std::to_string(count_of(report, Verdict::kSkip))).append(" skipped\n");
}

std::string report_text(const Report& report) {
  std::string text = text_heading(report);
  char family = '\0';
  for (const RuleResult& result : report.results) {
    text += text_of_result(result, result.rule->id[0] != family);
    family = result.rule->id[0];
  }
  return text + text_summary(report);
}

}  // namespace encore::check
