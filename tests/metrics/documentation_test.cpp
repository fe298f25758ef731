// docs/metrics.md and the server agree on every metric: its name, type and labels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "sample_metrics.h"

namespace encore {
namespace {

struct Metric {
  std::string type;
  std::set<std::string> labels;  // beside model_name, and le of histograms

  bool operator==(const Metric& other) const {
    return type == other.type && labels == other.labels;
  }
};

void PrintTo(const Metric& metric, std::ostream* out) {
  *out << metric.type;
  for (const std::string& label : metric.labels) *out << " " << label;
}

using Metrics = std::map<std::string, Metric>;

Metrics rendered() {
  ServerMetrics metrics("m");
  std::istringstream lines(metrics.render(sample_snapshot()));
  Metrics found;
  std::string name;
  const std::regex label_name("([a-z_]+)=\"");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, second, type;
    words >> first >> second;
    if (first == "#") {
      if (second != "TYPE") continue;
      words >> name >> type;
      found[name].type = type;
      continue;
    }
    for (std::sregex_iterator label(line.begin(), line.end(), label_name), end; label != end;
         ++label) {
      const std::string text = (*label)[1];
      if (text != "model_name" && text != "le") found[name].labels.insert(text);
    }
  }
  return found;
}

// Rows "| `encore:name` | type | unit | labels | ...".
Metrics documented() {
  std::ifstream page(ENCORE_METRICS_PAGE);
  EXPECT_TRUE(page.is_open()) << ENCORE_METRICS_PAGE;
  const std::regex row(R"(^\| `(encore:[a-z0-9_]+)` \| (\w+) \| [^|]* \|([^|]*)\|.*)");
  const std::regex quoted("`([a-z_]+)`");
  Metrics found;
  std::smatch match;
  for (std::string line; std::getline(page, line);) {
    if (!std::regex_match(line, match, row)) continue;
    EXPECT_EQ(found.count(match[1]), 0U) << match[1] << " is there twice";
    Metric& metric = found[match[1]];
    metric.type = match[2];
    const std::string labels = match[3];
    for (std::sregex_iterator label(labels.begin(), labels.end(), quoted), end; label != end;
         ++label) {
      metric.labels.insert((*label)[1]);
    }
  }
  return found;
}

TEST(MetricsDocumentationTest, HasEveryMetricAndNoOther) {
  const Metrics real = rendered();
  const Metrics page = documented();
  ASSERT_GT(real.size(), 30U);
  for (const auto& [name, metric] : real) {
    const auto row = page.find(name);
    if (row == page.end()) {
      ADD_FAILURE() << name << " is not in docs/metrics.md";
    } else {
      EXPECT_EQ(row->second, metric) << name;
    }
  }
  for (const auto& [name, metric] : page) {
    EXPECT_EQ(real.count(name), 1U) << name << " is in docs/metrics.md only";
  }
}

TEST(MetricsDocumentationTest, NamesEveryReasonToRunEagerly) {
  std::ifstream page(ENCORE_METRICS_PAGE);
  std::stringstream text;
  text << page.rdbuf();
  for (int32_t i = 1; i < kNumReasons; ++i) {
    std::string quoted = "`";
    quoted += reason_name(static_cast<Reason>(i));
    quoted += "`";
    EXPECT_THAT(text.str(), testing::HasSubstr(quoted));
  }
}

}  // namespace
}  // namespace encore
