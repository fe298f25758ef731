// Oniguruma's syntax, which tokenizer files use, in PCRE2's words.
#pragma once

#include <string>
#include <string_view>

#include "encore/status.h"

namespace encore {

// Rewrites what the two engines read differently: \s, \h, \d, \w and their complements, \b, \v,
// scripts, [:...:], the option m, and the properties of characters newer than the PCRE2 at hand.
// Errors: kUnimplemented for what PCRE2 would misread: nested classes, && in a class, {n,m}+,
// [:graph:], [:print:], \p without a brace, \Q, \E, \V, and options other than i, m and x.
Result<std::string> to_pcre2_syntax(std::string_view pattern);

}  // namespace encore
