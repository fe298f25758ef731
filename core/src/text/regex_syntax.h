// Oniguruma's syntax, which tokenizer files use, in PCRE2's words.
#pragma once

#include <string>
#include <string_view>

#include "encore/status.h"

namespace encore {

// Rewrites what the two engines read differently: \s, \h, and the properties of characters newer
// than the PCRE2 at hand.
// Errors: kUnimplemented for nested classes, && in a class and {n,m}+, which PCRE2 would misread.
Result<std::string> to_pcre2_syntax(std::string_view pattern);

}  // namespace encore
