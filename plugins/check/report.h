// What a run of the kit found, for people and for programs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rule_process.h"

namespace encore::check {

struct Report {
  std::string kit_version;
  std::string plugin_path;
  std::vector<RuleResult> results;  // in the order in which they ran
};

int64_t count_of(const Report& report, Verdict verdict);

// Text comes in pieces, so that it can be shown while rules run: a line for each result (under its
// family's heading if `first_of_family`), and the closing line "N passed, N failed, N skipped".
std::string text_heading(const Report& report);
std::string text_of_result(const RuleResult& result, bool first_of_family);
std::string text_summary(const Report& report);

std::string report_text(const Report& report);  // all pieces
std::string report_json(const Report& report);
std::string report_junit(const Report& report);

}  // namespace encore::check
