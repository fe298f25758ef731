#include "rule_set.h"

#include <algorithm>
#include <cctype>

namespace encore::check {
namespace {

std::string upper(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return result;
}

// "S,R03" -> {"S", "R03"}.
std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> words;
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (comma != 0) words.push_back(upper(list.substr(0, comma)));
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return words;
}

bool names_rule(const std::string& word, const Rule& rule) {
  return word == rule.id || (word.size() == 1 && word[0] == rule.id[0]);
}

Status check_words(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    bool known = false;
    std::string families;
    for (const RuleFamily& family : rule_families()) {
      families += families.empty() ? "" : ", ";
      families += family.letter;
      known = known || (word.size() == 1 && word[0] == family.letter);
    }
    if (!known && find_rule(word) == nullptr) {
      return invalid_argument(
          std::string("--rules names '")
              .append(word)
              .append("'; it takes families (")
              .append(families)
              .append(") and rules such as S01, separated by commas; --list shows all"));
    }
  }
  return {};
}

}  // namespace

std::vector<RuleFamily> rule_families() {
  return {{kStaticFamily, "static", static_rules()}, {'L', "load", load_rules()},
          {'N', "negotiation", negotiation_rules()}, {'E', "errors", error_rules()},
          {'R', "equality", equality_rules()},       {'G', "graphs", graph_rules()},
          {'T', "threads", thread_rules()},          {'P', "speed", speed_rules()}};
}

const Rule* find_rule(std::string_view id) {
  for (const RuleFamily& family : rule_families()) {
    for (const Rule& rule : family.rules) {
      if (rule.id == id) return &rule;
    }
  }
  return nullptr;
}

Result<std::vector<const Rule*>> select_rules(std::string_view list) {
  const std::vector<std::string> words = split(list);
  ENCORE_RETURN_IF_ERROR(check_words(words));
  const auto wanted = [&](const Rule& rule) {
    return words.empty() || std::any_of(words.begin(), words.end(), [&](const std::string& word) {
             return names_rule(word, rule);
           });
  };
  bool needs_loading = false;
  for (const RuleFamily& family : rule_families()) {
    if (family.letter == kStaticFamily) continue;
    needs_loading = needs_loading || std::any_of(family.rules.begin(), family.rules.end(), wanted);
  }
  std::vector<const Rule*> selected;
  for (const RuleFamily& family : rule_families()) {
    for (const Rule& rule : family.rules) {
      if (wanted(rule) || (needs_loading && rule.id == kLoadingRule)) selected.push_back(&rule);
    }
  }
  return selected;
}

std::string documentation_of(const Rule& rule) {
  std::string anchor(rule.id);
  std::transform(anchor.begin(), anchor.end(), anchor.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return "docs/conformance.md#" + anchor;
}

}  // namespace encore::check
