#include "text/id_bytes.h"

#include <algorithm>
#include <variant>

#include "text/tokenizer.h"

namespace encore {
namespace {

// Bytes of a text for one of its normal form. The worst there are: a mathematical letter becomes an
// ASCII one (4), U+1FBE and two marks become U+0390 (3.5); no composition takes more.
constexpr int64_t kUnicodeShrink = 4;

// Bytes of a text for one that the normalizer leaves, at most; 0: there is no limit.
int64_t max_shrink(const Normalizer& normalizer) {
  int64_t shrink = 1;
  for (const NormalizerStep& step : normalizer.steps()) {
    if (std::holds_alternative<UnicodeForm>(step)) {
      shrink *= kUnicodeShrink;
    } else if (const auto* replace = std::get_if<ReplaceText>(&step)) {
      if (replace->to.empty()) return 0;
      const auto from = std::ssize(replace->from);
      const auto to = std::ssize(replace->to);
      shrink *= std::max<int64_t>(1, (from + to - 1) / to);
    } else if (std::holds_alternative<ReplacePattern>(step)) {
      return 0;
    }
  }
  return shrink;
}

bool drops_text(const PreTokenizer& pre_tokenizer) {
  return std::any_of(pre_tokenizer.steps().begin(), pre_tokenizer.steps().end(),
                     [](const PreTokenizerStep& step) {
                       const auto* split = std::get_if<SplitStep>(&step);
                       return split != nullptr && split->behavior == SplitBehavior::kRemoved;
                     });
}

// Bytes that an added token stands for, at most; 0: there is no limit.
int64_t max_added_bytes(const TokenizerParts& parts) {
  for (const AddedToken& token : parts.added.tokens()) {
    if (token.lstrip || token.rstrip) return 0;  // with all the white space beside it
  }
  return std::max<int64_t>(1, parts.added.longest_text());
}

}  // namespace

int64_t max_bytes_per_id(const TokenizerParts& parts) {
  const int64_t of_model = parts.model.max_bytes_per_id();
  const int64_t of_added = max_added_bytes(parts);
  if (of_model == 0 || of_added == 0 || drops_text(parts.pre_tokenizer)) return 0;
  return std::max(of_model, of_added) * max_shrink(parts.normalizer);
}

}  // namespace encore
