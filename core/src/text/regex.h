// Regular expressions as tokenizer files write them (Oniguruma syntax), run by PCRE2.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "encore/status.h"

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
  // Errors: kInvalidArgument if the text drives the pattern past its match limit.
  Status find_all(std::string_view text, std::vector<ByteRange>& matches) const;

 private:
  explicit Regex(std::shared_ptr<const void> code) : code_(std::move(code)) {}

  std::shared_ptr<const void> code_;  // pcre2_code
};

}  // namespace encore
