// Runs one rule in a process of its own, and says what became of it.
#pragma once

#include <string>
#include <vector>

#include "rule.h"

namespace encore::check {

struct RuleResult {
  const Rule* rule = nullptr;
  Outcome outcome;
  double seconds = 0.0;
};

// The descriptor on which the process of a rule finds the pipe for its outcome.
inline constexpr int kOutcomeDescriptor = 3;

// Starts `program` with `arguments` (without the program's name), which end in run_rule_here() of
// the same rule, and waits. A process that crashes, exits, says nothing sensible or takes longer
// than the rule's limit times `time_factor` is a failed rule; what it wrote last is in the message.
// Any thread.
RuleResult run_rule_in_child(const Rule& rule, const std::string& program,
                             const std::vector<std::string>& arguments, double time_factor);

// In the child: runs the rule, writes its outcome to kOutcomeDescriptor and ends the process
// without running destructors of the plugin, whose end has a rule of its own.
[[noreturn]] void run_rule_here(const Rule& rule, const CheckContext& context);

}  // namespace encore::check
