#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "text/normalization_barriers.h"
#include "text/utf8.h"

namespace encore {
namespace {

// Text below U+0300 is in NFC already; its first byte there is 0xCC.
bool is_trivially_nfc(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<uint8_t>(c) < 0xCC; });
}

bool is_barrier(uint32_t code_point) {
  const auto* range = std::lower_bound(
      std::begin(kNormalizationBarriers), std::end(kNormalizationBarriers), code_point,
      [](const CodePointRange& entry, uint32_t wanted) { return entry.last < wanted; });
  return range != std::end(kNormalizationBarriers) && range->first <= code_point;
}

int32_t combining_class(int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// Appends the decomposition of one character, combining characters in the order of the tables.
Status append_decomposed(int32_t code_point, utf8proc_option_t options, std::vector<int32_t>& out) {
  constexpr utf8proc_ssize_t kLongest = 32;  // the tables' longest is 18, of U+FDFA
  int32_t parts[kLongest];
  int boundary = 0;
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(code_point, parts, kLongest, options, &boundary);
  if (count < 0 || count > kLongest) {
    return invalid_argument(std::string("Unicode normalization failed: ") +
                            utf8proc_errmsg(count < 0 ? count : UTF8PROC_ERROR_OVERFLOW));
  }
  out.insert(out.end(), parts, parts + count);
  return {};
}

// Orders each run of combining characters by class. utf8proc's own way is quadratic in the run.
void reorder(std::vector<int32_t>& characters) {
  const auto combines = [](int32_t c) { return combining_class(c) != 0; };
  auto run = characters.begin();
  while ((run = std::find_if(run, characters.end(), combines)) != characters.end()) {
    const auto end = std::find_if_not(run, characters.end(), combines);
    std::stable_sort(run, end, [](int32_t left, int32_t right) {
      return combining_class(left) < combining_class(right);
    });
    run = end;
  }
}

Status append_normalized(std::string_view text, UnicodeForm form, std::string& out) {
  if (text.empty()) return {};
  int options = UTF8PROC_STABLE;
  const bool compose = form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc;
  options |= compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd) options |= UTF8PROC_COMPAT;
  const auto flags = static_cast<utf8proc_option_t>(options);
  std::vector<int32_t> characters;
  characters.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = utf8_step(text, i);
    ENCORE_RETURN_IF_ERROR(
        append_decomposed(static_cast<int32_t>(step.code_point), flags, characters));
    i += step.length;
  }
  reorder(characters);
  auto length = static_cast<utf8proc_ssize_t>(characters.size());
  if (compose) length = utf8proc_normalize_utf32(characters.data(), length, flags);
  if (length < 0) {
    return invalid_argument(std::string("Unicode normalization failed: ") +
                            utf8proc_errmsg(length));
  }
  for (utf8proc_ssize_t i = 0; i < length; ++i) {
    append_utf8(static_cast<uint32_t>(characters[static_cast<size_t>(i)]), out);
  }
  return {};
}

// Normalizes as Unicode 9 would, which the tokenizers library follows whatever the tables at hand:
// characters it did not know stand unchanged, and nothing moves across them.
Result<std::string> normalize(std::string_view text, UnicodeForm form) {
  if (form == UnicodeForm::kNfc && is_trivially_nfc(text)) return std::string(text);
  std::string out;
  size_t done = 0;
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = utf8_step(text, i);
    if (is_barrier(step.code_point)) {
      ENCORE_RETURN_IF_ERROR(append_normalized(text.substr(done, i - done), form, out));
      out += text.substr(i, step.length);
      done = i + step.length;
    }
    i += step.length;
  }
  ENCORE_RETURN_IF_ERROR(append_normalized(text.substr(done), form, out));
  return out;
}

Result<std::string> replace_matches(std::string_view text, const ReplacePattern& step,
                                    TextBudget& budget) {
  std::vector<ByteRange> matches;
  ENCORE_RETURN_IF_ERROR(step.from.find_all(text, budget, matches));
  size_t matched_bytes = 0;
  for (const ByteRange& match : matches) matched_bytes += match.size();
  ENCORE_RETURN_IF_ERROR(budget.grow(matched_bytes, matches.size() * step.to.size()));
  std::string out;
  size_t done = 0;
  for (const ByteRange& match : matches) {
    out.append(text.substr(done, match.begin - done)).append(step.to);
    done = match.end;
  }
  return out.append(text.substr(done));
}

Result<std::string> replace_literals(const std::string& text, const ReplaceText& step,
                                     TextBudget& budget) {
  if (step.to.size() > step.from.size()) {
    size_t count = 0;
    for (size_t at = text.find(step.from); at != std::string::npos;
         at = text.find(step.from, at + step.from.size())) {
      ++count;
    }
    ENCORE_RETURN_IF_ERROR(budget.grow(count * step.from.size(), count * step.to.size()));
  }
  return replace_all(text, step.from, step.to);
}

Result<std::string> apply_step(const std::string& text, const NormalizerStep& step,
                               TextBudget& budget) {
  if (const auto* form = std::get_if<UnicodeForm>(&step)) {
    ENCORE_ASSIGN_OR_RETURN(std::string normalized, normalize(text, *form));
    ENCORE_RETURN_IF_ERROR(budget.grow(text.size(), normalized.size()));
    return normalized;
  }
  if (const auto* prepend = std::get_if<PrependText>(&step)) {
    if (text.empty()) return text;
    ENCORE_RETURN_IF_ERROR(budget.grow(0, prepend->text.size()));
    return prepend->text + text;
  }
  if (const auto* replace = std::get_if<ReplaceText>(&step)) {
    return replace_literals(text, *replace, budget);
  }
  return replace_matches(text, std::get<ReplacePattern>(step), budget);
}

}  // namespace

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  size_t done = 0;
  for (size_t at = text.find(from); at != std::string_view::npos; at = text.find(from, done)) {
    out.append(text.substr(done, at - done)).append(to);
    done = at + from.size();
  }
  return out.append(text.substr(done));
}

Result<std::string> Normalizer::apply(std::string_view text, TextBudget& budget) const {
  std::string current(text);
  for (const NormalizerStep& step : steps_) {
    ENCORE_ASSIGN_OR_RETURN(current, apply_step(current, step, budget));
  }
  return current;
}

}  // namespace encore
