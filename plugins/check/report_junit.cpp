#include <array>
#include <cstdio>
#include <string_view>

#include "encore/sdk/abi_text.h"
#include "report.h"
#include "rule_set.h"

namespace encore::check {
namespace {

// Text for an attribute or an element. XML 1.0 has no way to write most control characters.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : sdk::valid_utf8(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '"') {
      result += "&quot;";
    } else if (c == '\n') {
      result += "&#10;";
    } else if (byte < 0x20 && c != '\t') {
      result += '?';
    } else {
      result += c;
    }
  }
  return result;
}

std::string seconds_text(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f", seconds);
  return text.data();
}

std::string case_xml(const RuleResult& result) {
  const std::string name = std::string(result.rule->id) + " " + std::string(result.rule->title);
  std::string xml = "  <testcase classname=\"encore-plugin-check." +
                    std::string(1, result.rule->id[0]) + "\" name=\"" + escaped(name) +
                    "\" time=\"" + seconds_text(result.seconds) + "\"";
  const std::string message = escaped(result.outcome.message);
  switch (result.outcome.verdict) {
    case Verdict::kPass:
      return xml + "/>\n";
    case Verdict::kFail:
      xml += ">\n    <failure message=\"" + message + "\">see " +
             escaped(documentation_of(*result.rule)) + "</failure>\n";
      break;
    case Verdict::kSkip:
      xml += ">\n    <skipped message=\"" + message + "\"/>\n";
      break;
  }
  return xml + "  </testcase>\n";
}

}  // namespace

std::string report_junit(const Report& report) {
  double seconds = 0.0;
  std::string cases;
  for (const RuleResult& result : report.results) {
    seconds += result.seconds;
    cases += case_xml(result);
  }
  std::string xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  xml += "<testsuite name=\"" + escaped("encore-plugin-check " + report.plugin_path) +
         "\" tests=\"" + std::to_string(report.results.size()) + "\" failures=\"" +
         std::to_string(count_of(report, Verdict::kFail)) + "\" errors=\"0\" skipped=\"" +
         std::to_string(count_of(report, Verdict::kSkip)) + "\" time=\"" + seconds_text(seconds) +
         "\">\n";
  return xml + cases + "</testsuite>\n";
}

}  // namespace encore::check
