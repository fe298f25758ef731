#include "health_report.h"

#include <algorithm>
#include <cassert>
#include <nlohmann/json.hpp>

#include "text_table.h"

namespace encore {
namespace {

using Json = nlohmann::ordered_json;

// Grows when a field changes its meaning or goes; new fields leave it alone.
constexpr int kSchema = 1;

const char* verdict_label(Verdict verdict) {
  return verdict == Verdict::kFail ? "FAIL" : verdict_name(verdict);
}

std::string spaced(std::string text) {
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string indented(const std::string& text, const std::string& indent) {
  std::string out;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    out += indent + text.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return out;
}

size_t name_width(const HealthSection& section) {
  size_t width = 10;
  for (const HealthCheck& check : section.checks) width = std::max(width, check.name.size());
  return std::min<size_t>(width, 32);
}

std::string checks_text(const HealthSection& section) {
  const size_t width = name_width(section);
  const std::string indent(width + 10, ' ');
  std::string out;
  for (const HealthCheck& check : section.checks) {
    const size_t line_end = std::min(check.detail.find('\n'), check.detail.size());
    std::string line = std::string("  ") + padded(verdict_label(check.verdict), 6);
    line += padded(check.name, width) + "  " + check.detail.substr(0, line_end);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
    if (line_end < check.detail.size()) {
      out += indented(check.detail.substr(line_end + 1), indent);
    }
    if (!check.next_step.empty()) out += indented("next: " + check.next_step, indent);
  }
  return out;
}

std::string table_text(const HealthSection& section) {
  std::vector<std::string> header = {"", ""};
  for (const std::string& column : section.columns) header.push_back(spaced(column));
  header.emplace_back("");
  TextTable table(header);
  for (const HealthCheck& check : section.checks) {
    assert(check.cells.size() == section.columns.size());
    std::vector<std::string> row = {verdict_label(check.verdict), check.name};
    row.insert(row.end(), check.cells.begin(), check.cells.end());
    row.push_back(check.detail);
    table.add_row(std::move(row));
  }
  std::string out = indented(table.text(), "  ");
  for (const HealthCheck& check : section.checks) {
    if (check.next_step.empty()) continue;
    out += indented("next (" + check.name + "): " + check.next_step, "  ");
  }
  return out;
}

Json check_json(const HealthSection& section, const HealthCheck& check) {
  Json json;
  json["name"] = check.name;
  json["verdict"] = verdict_name(check.verdict);
  json["detail"] = check.detail;
  if (!check.next_step.empty()) json["next_step"] = check.next_step;
  for (const auto& [stage, outcome] : check.stages) json["stages"][stage] = outcome;
  for (size_t i = 0; i < section.columns.size(); ++i) json[section.columns[i]] = check.cells.at(i);
  return json;
}

std::string counted(const HealthReport& report, Verdict verdict, const char* words) {
  int64_t count = 0;
  for (const HealthSection& section : report.sections) {
    count += std::count_if(section.checks.begin(), section.checks.end(),
                           [&](const HealthCheck& check) { return check.verdict == verdict; });
  }
  return std::to_string(count) + " " + words;
}

}  // namespace

void HealthSection::ok(std::string name, std::string detail) {
  checks.push_back({Verdict::kOk, std::move(name), std::move(detail), "", {}, {}});
}

void HealthSection::skip(std::string name, std::string detail) {
  checks.push_back({Verdict::kSkip, std::move(name), std::move(detail), "", {}, {}});
}

void HealthSection::warn(std::string name, std::string detail, std::string next_step) {
  checks.push_back(
      {Verdict::kWarn, std::move(name), std::move(detail), std::move(next_step), {}, {}});
}

void HealthSection::fail(std::string name, std::string detail, std::string next_step) {
  checks.push_back(
      {Verdict::kFail, std::move(name), std::move(detail), std::move(next_step), {}, {}});
}

Health health_of(const HealthReport& report) {
  Health health = Health::kHealthy;
  for (const HealthSection& section : report.sections) {
    for (const HealthCheck& check : section.checks) {
      if (check.verdict == Verdict::kFail) return Health::kUnusable;
      if (check.verdict == Verdict::kWarn) health = Health::kDegraded;
    }
  }
  return health;
}

const char* health_name(Health health) {
  switch (health) {
    case Health::kHealthy:
      return "healthy";
    case Health::kDegraded:
      return "degraded";
    case Health::kUnusable:
      return "unusable";
  }
  return "unknown";
}

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kSkip:
      return "skip";
    case Verdict::kWarn:
      return "warn";
    case Verdict::kFail:
      return "fail";
  }
  return "unknown";
}

std::string health_text(const HealthReport& report) {
  std::string out;
  for (const HealthSection& section : report.sections) {
    if (section.checks.empty()) continue;
    out += section.title + "\n";
    out += section.columns.empty() ? checks_text(section) : table_text(section);
    out += "\n";
  }
  out += std::string(health_name(health_of(report))) + ": ";
  out += counted(report, Verdict::kFail, "failed, ") + counted(report, Verdict::kWarn, "warned, ");
  return out + counted(report, Verdict::kOk, "ok, ") + counted(report, Verdict::kSkip, "skipped\n");
}

Json health_json(const HealthReport& report) {
  const Health health = health_of(report);
  Json json;
  json["schema"] = kSchema;
  json["health"] = health_name(health);
  json["exit_code"] = static_cast<int>(health);
  json["sections"] = Json::array();
  for (const HealthSection& section : report.sections) {
    Json checks = Json::array();
    for (const HealthCheck& check : section.checks) checks.push_back(check_json(section, check));
    json["sections"].push_back(
        {{"id", section.id}, {"title", section.title}, {"checks", std::move(checks)}});
  }
  return json;
}

}  // namespace encore
