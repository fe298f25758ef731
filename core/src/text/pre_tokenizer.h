// Splits normalized text into the words that byte-pair encoding works on.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "encore/status.h"
#include "text/regex.h"
#include "text/text_budget.h"

namespace encore {

// What becomes of the stretches that a pattern matches.
enum class SplitBehavior {
  kRemoved,             // they are dropped
  kIsolated,            // each is a word
  kMergedWithPrevious,  // each ends the word before it
  kMergedWithNext,      // each starts the word after it
  kContiguous,          // neighbouring ones form one word
};

struct SplitStep {
  std::variant<std::string, Regex> pattern;  // a string is matched literally
  SplitBehavior behavior;
  bool invert;  // swap what matches and what does not
};

// Puts one space before every piece that does not start with one.
struct SpacePrefixStep {};

// SentencePiece's spelling of spaces.
struct MetaspaceStep {
  enum class Prepend { kAlways, kFirst, kNever };

  std::string replacement;  // one character
  Prepend prepend;          // kFirst: only before the piece that starts the text
  bool split;               // start a word at every replacement
};

using PreTokenizerStep = std::variant<SplitStep, SpacePrefixStep, MetaspaceStep>;

// Steps in order, each applied to every piece that the one before it left. Immutable; any thread.
class PreTokenizer {
 public:
  PreTokenizer() = default;
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {}

  // Splits `text` into `words`, ranges of it; steps that add characters change `text` itself.
  //   at_start  whether `text` begins the whole input
  // REQUIRES: `text` is valid UTF-8. Errors: those of Regex::find_all and TextBudget::grow.
  Status split(std::string& text, bool at_start, TextBudget& budget,
               std::vector<ByteRange>& words) const;

  const std::vector<PreTokenizerStep>& steps() const { return steps_; }

 private:
  std::vector<PreTokenizerStep> steps_;
};

// GPT-2's word pattern, the default of byte-level tokenizers.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace encore
