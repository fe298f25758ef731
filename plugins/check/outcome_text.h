// An outcome on its way from the process that ran the rule to the one that reports it.
#pragma once

#include <string>
#include <string_view>

#include "encore/status.h"
#include "rule.h"

namespace encore::check {

std::string_view verdict_name(Verdict verdict);  // "pass", "fail", "skip"

std::string outcome_to_text(const Outcome& outcome);

// Errors: kDataLoss if the text is not one that outcome_to_text() made, or is cut short.
Result<Outcome> outcome_from_text(const std::string& text);

}  // namespace encore::check
