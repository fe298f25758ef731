// What `encore doctor` found: sections of checks, and what they add up to.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace encore {

enum class Verdict {
  kOk,
  kSkip,  // could not be checked, or need not be: nothing is wrong
  kWarn,  // something is broken or second best, and the configured run does not need it
  kFail,  // the configured run cannot work
};

struct HealthCheck {
  Verdict verdict = Verdict::kOk;
  std::string name;
  std::string detail;
  std::string next_step;           // what to do about it; only with kWarn and kFail
  std::vector<std::string> cells;  // as many as the section's columns
  // For --json: what happened at each stage, in order. People read it in `detail`.
  std::vector<std::pair<std::string, std::string>> stages;
};

struct HealthSection {
  std::string id;                    // in --json, never renamed
  std::string title;                 // for people
  std::vector<std::string> columns;  // ids; with some, the checks are shown as a table
  std::vector<HealthCheck> checks;

  void ok(std::string name, std::string detail);
  void skip(std::string name, std::string detail);
  void warn(std::string name, std::string detail, std::string next_step);
  void fail(std::string name, std::string detail, std::string next_step);
};

// The numbers are doctor's exit codes.
enum class Health { kHealthy = 0, kDegraded = 1, kUnusable = 2 };

struct HealthReport {
  std::vector<HealthSection> sections;
};

// Unusable if any check failed, else degraded if any warned.
Health health_of(const HealthReport& report);

const char* health_name(Health health);     // "healthy", "degraded", "unusable"
const char* verdict_name(Verdict verdict);  // "ok", "skip", "warn", "fail"

// For people: a heading a section, a line a check, its next step below it, the sum at the end.
std::string health_text(const HealthReport& report);

// {schema, health, exit_code, sections: [{id, title, checks: [{name, verdict, detail, ...}]}]}.
nlohmann::ordered_json health_json(const HealthReport& report);

}  // namespace encore
