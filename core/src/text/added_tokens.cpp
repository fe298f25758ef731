#include "text/added_tokens.h"

#include <algorithm>

#include "text/characters.h"
#include "text/utf8.h"

namespace encore {
namespace {

// Where the character that ends at `end` begins. REQUIRES: end > 0 and valid UTF-8.
size_t previous_character(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
  return begin;
}

bool touches_word(std::string_view text, ByteRange range) {
  const bool before =
      range.begin > 0 &&
      is_word_character(utf8_step(text, previous_character(text, range.begin)).code_point);
  const bool after =
      range.end < text.size() && is_word_character(utf8_step(text, range.end).code_point);
  return before || after;
}

// Grows `range` over the white space that the token's strip flags claim, not before `limit`.
ByteRange strip_around(std::string_view text, ByteRange range, const AddedToken& token,
                       size_t limit) {
  if (token.lstrip) {
    while (range.begin > limit) {
      const size_t previous = previous_character(text, range.begin);
      if (!is_white_space(utf8_step(text, previous).code_point)) break;
      range.begin = previous;
    }
  }
  if (token.rstrip) {
    while (range.end < text.size()) {
      const Utf8Step step = utf8_step(text, range.end);
      if (!is_white_space(step.code_point)) break;
      range.end += step.length;
    }
  }
  return range;
}

}  // namespace

bool AddedToken::is_control() const {
  if (special) return true;
  const std::string_view view = text;
  const auto marker = [&](std::string_view open, std::string_view close) {
    return view.size() > open.size() + close.size() && view.starts_with(open) &&
           view.ends_with(close);
  };
  return marker("<|", "|>") || marker("<\xEF\xBD\x9C", "\xEF\xBD\x9C>");
}

void AddedTokens::Matcher::index() {
  std::sort(patterns.begin(), patterns.end(),
            [](const Pattern& a, const Pattern& b) { return a.text < b.text; });
  uint32_t next = 0;
  for (uint32_t byte = 0; byte <= 256; ++byte) {
    while (byte > 0 && next < patterns.size() &&
           static_cast<uint8_t>(patterns[next].text[0]) < byte) {
      ++next;
    }
    first[byte] = next;
  }
}

const AddedTokens::Matcher::Pattern* AddedTokens::Matcher::longest_at(std::string_view text,
                                                                      size_t position) const {
  const auto lead = static_cast<uint8_t>(text[position]);
  auto low = patterns.begin() + first[lead];
  auto high = patterns.begin() + first[lead + 1];
  const Pattern* longest = nullptr;
  for (size_t depth = 1; low != high; ++depth) {
    if (low->text.size() == depth) {
      longest = &*low;
      ++low;
    }
    if (low == high || position + depth >= text.size()) break;
    const auto byte = static_cast<uint8_t>(text[position + depth]);
    low = std::partition_point(
        low, high, [&](const Pattern& p) { return static_cast<uint8_t>(p.text[depth]) < byte; });
    high = std::partition_point(
        low, high, [&](const Pattern& p) { return static_cast<uint8_t>(p.text[depth]) <= byte; });
  }
  return longest;
}

Result<AddedTokens> AddedTokens::build(std::vector<AddedToken> tokens,
                                       const Normalizer& normalizer) {
  AddedTokens added;
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.text < b.text; });
  for (AddedToken& token : tokens) {
    if (token.id < 0 || token.id >= Vocabulary::kMaxTokens) {
      return data_loss("tokenizer: added token \"" + token.text + "\" has id " +
                       std::to_string(token.id) + ", outside 0.." +
                       std::to_string(Vocabulary::kMaxTokens - 1));
    }
    if (token.text.empty()) continue;
    if (!added.tokens_.empty() && added.tokens_.back().text == token.text) continue;
    added.tokens_.push_back(std::move(token));
  }
  std::stable_sort(added.tokens_.begin(), added.tokens_.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  size_t text_bytes = 0;
  for (const AddedToken& token : added.tokens_) text_bytes += token.text.size();
  TextBudget budget(text_bytes);
  for (uint32_t i = 0; i < added.tokens_.size(); ++i) {
    const AddedToken& token = added.tokens_[i];
    std::string pattern = token.text;
    if (token.normalized) {
      ENCORE_ASSIGN_OR_RETURN(pattern,
                              normalizer.apply(replace_malformed_utf8(token.text), budget));
    }
    Matcher& matcher = token.normalized ? added.normalized_ : added.raw_;
    if (!pattern.empty()) matcher.patterns.push_back({std::move(pattern), i});
    added.by_text_.push_back(i);
  }
  std::sort(added.by_text_.begin(), added.by_text_.end(),
            [&](uint32_t a, uint32_t b) { return added.tokens_[a].text < added.tokens_[b].text; });
  added.raw_.index();
  added.normalized_.index();
  return added;
}

void AddedTokens::split(std::string_view text, bool normalized, bool match_control,
                        std::span<const ForcedToken> forced, std::vector<TextPart>& parts) const {
  parts.clear();
  const Matcher& matcher = normalized ? normalized_ : raw_;
  size_t done = 0;
  const auto emit = [&](ByteRange range, const AddedToken* token, int32_t id) {
    if (token != nullptr) range = strip_around(text, range, *token, done);
    if (done < range.begin) parts.push_back({{done, range.begin}, kNoToken});
    parts.push_back({range, id});
    done = range.end;
  };
  for (size_t position = 0; position < text.size();) {
    if (!forced.empty() && position == forced.front().range.begin) {
      emit(forced.front().range, by_id(forced.front().id), forced.front().id);
      position = forced.front().range.end;
      forced = forced.subspan(1);
      continue;
    }
    const size_t limit = forced.empty() ? text.size() : forced.front().range.begin;
    const auto* pattern = matcher.longest_at(text.substr(0, limit), position);
    if (pattern == nullptr) {
      ++position;
      continue;
    }
    const AddedToken& token = tokens_[pattern->token];
    const ByteRange range{position, position + pattern->text.size()};
    position = range.end;
    if (!match_control && token.is_control()) continue;
    if (token.single_word && touches_word(text, range)) continue;
    // The search goes on inside white space that the token before took, as the tokenizers library's
    // does: a token found there counts too, unless it strips to the left, which leaves it empty.
    if (token.lstrip && range.end <= done) continue;
    emit(range, &token, token.id);
  }
  if (done < text.size()) parts.push_back({{done, text.size()}, kNoToken});
}

const AddedToken* AddedTokens::by_id(int32_t id) const {
  const auto found =
      std::lower_bound(tokens_.begin(), tokens_.end(), id,
                       [](const AddedToken& token, int32_t wanted) { return token.id < wanted; });
  return found != tokens_.end() && found->id == id ? &*found : nullptr;
}

const AddedToken* AddedTokens::by_text(std::string_view text) const {
  const auto found = std::lower_bound(
      by_text_.begin(), by_text_.end(), text,
      [&](uint32_t index, std::string_view wanted) { return tokens_[index].text < wanted; });
  return found != by_text_.end() && tokens_[*found].text == text ? &tokens_[*found] : nullptr;
}

int64_t AddedTokens::longest_text() const {
  int64_t longest = 0;
  for (const AddedToken& token : tokens_) longest = std::max(longest, std::ssize(token.text));
  for (const Matcher::Pattern& pattern : normalized_.patterns) {
    longest = std::max(longest, std::ssize(pattern.text));
  }
  return longest;
}

}  // namespace encore
