// All rules of the kit, and choosing among them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "encore/status.h"
#include "rule.h"

namespace encore::check {

struct RuleFamily {
  char letter;             // 'S'
  std::string_view title;  // "static"
  std::span<const Rule> rules;
};

// In the order in which they are run.
std::vector<RuleFamily> rule_families();

// If the rule that loads the plugin fails, rules that need a loaded plugin say nothing of their
// own: they are skipped.
inline constexpr std::string_view kLoadingRule = "L01";
inline constexpr char kStaticFamily = 'S';

// Null if there is none of that id.
const Rule* find_rule(std::string_view id);

// The rules that a list such as "S,R03" names, each once, in their order; all if it is empty.
// kLoadingRule is among them if any of the others needs it.
// Errors: kInvalidArgument naming what is neither a family nor a rule.
Result<std::vector<const Rule*>> select_rules(std::string_view list);

// Where the rule is explained: "docs/conformance.md#r03".
std::string documentation_of(const Rule& rule);

}  // namespace encore::check
