// Regular expressions as tokenizer files write them (Oniguruma syntax), run by PCRE2.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "encore/status.h"
#include "text/text_budget.h"

namespace encore {

// A half-open range of bytes.
struct ByteRange {
  size_t begin;
  size_t end;

  size_t size() const { return end - begin; }
};

// A compiled expression. Immutable; any thread may match with it at once.
class Regex {
 public:
  // Errors: kInvalidArgument if the pattern does not compile; kUnimplemented for Oniguruma syntax
  // that PCRE2 reads differently and to_pcre2_syntax() does not rewrite.
  static Result<Regex> compile(std::string_view pattern);

  // Appends all matches in `text`, left to right, without overlap. A match may be empty.
  // REQUIRES: text is valid UTF-8.
  // Errors: kInvalidArgument, naming the pattern, if the text drives it past its match limit or
  // the time of `budget` is over.
  Status find_all(std::string_view text, TextBudget& budget, std::vector<ByteRange>& matches) const;

 private:
  Regex(std::string_view pattern, std::shared_ptr<const void> code)
      : pattern_(pattern), code_(std::move(code)) {}

  std::string pattern_;
  std::shared_ptr<const void> code_;  // pcre2_code
};

}  // namespace encore
