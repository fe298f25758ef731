// What happens to text before it is split: Unicode normal forms, replacement, prefixes.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "encore/status.h"
#include "text/regex.h"
#include "text/text_budget.h"

namespace encore {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

struct PrependText {
  std::string text;  // put before any text that is not empty
};
struct ReplaceText {
  std::string from;
  std::string to;
};
struct ReplacePattern {
  Regex from;
  std::string to;
};

using NormalizerStep = std::variant<UnicodeForm, PrependText, ReplaceText, ReplacePattern>;

// Steps in order. Immutable after construction; any thread.
class Normalizer {
 public:
  Normalizer() = default;
  explicit Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}

  bool empty() const { return steps_.empty(); }
  const std::vector<NormalizerStep>& steps() const { return steps_; }

  // REQUIRES: `text` is valid UTF-8.
  // Errors: those of Regex::find_all and TextBudget::grow.
  Result<std::string> apply(std::string_view text, TextBudget& budget) const;

 private:
  std::vector<NormalizerStep> steps_;
};

// `text` with every occurrence of `from` (not empty) replaced, left to right.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

}  // namespace encore
