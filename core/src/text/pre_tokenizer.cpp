#include "text/pre_tokenizer.h"

#include <algorithm>

#include "text/normalizer.h"

namespace encore {
namespace {

// A stretch of a piece; matched or between matches.
struct Stretch {
  ByteRange range;
  bool matched;
};

Status find_matches(std::string_view piece, const SplitStep& step, TextBudget& budget,
                    std::vector<ByteRange>& matches) {
  if (const auto* regex = std::get_if<Regex>(&step.pattern)) {
    return regex->find_all(piece, budget, matches);
  }
  const auto& literal = std::get<std::string>(step.pattern);
  for (size_t at = piece.find(literal); at != std::string_view::npos;
       at = piece.find(literal, at + literal.size())) {
    matches.push_back({at, at + literal.size()});
  }
  return {};
}

void add_word(ByteRange range, std::vector<ByteRange>& words) {
  if (range.size() > 0) words.push_back(range);
}

// Joins each matched stretch to a neighbour. Runs forwards for "previous"; "next" is the mirror
// image. In a run of matches only the first one joins.
void merge_with_neighbour(const std::vector<Stretch>& stretches, bool previous,
                          std::vector<ByteRange>& words) {
  std::vector<ByteRange> merged;
  bool last_matched = false;
  const auto visit = [&](const Stretch& stretch) {
    if (stretch.matched && !last_matched && !merged.empty()) {
      if (previous) {
        merged.back().end = stretch.range.end;
      } else {
        merged.back().begin = stretch.range.begin;
      }
    } else {
      merged.push_back(stretch.range);
    }
    last_matched = stretch.matched;
  };
  if (previous) {
    std::for_each(stretches.begin(), stretches.end(), visit);
  } else {
    std::for_each(stretches.rbegin(), stretches.rend(), visit);
    std::reverse(merged.begin(), merged.end());
  }
  for (const ByteRange& range : merged) add_word(range, words);
}

void apply_behavior(const std::vector<Stretch>& stretches, SplitBehavior behavior,
                    std::vector<ByteRange>& words) {
  switch (behavior) {
    case SplitBehavior::kIsolated:
      for (const Stretch& stretch : stretches) add_word(stretch.range, words);
      return;
    case SplitBehavior::kRemoved:
      for (const Stretch& stretch : stretches) {
        if (!stretch.matched) add_word(stretch.range, words);
      }
      return;
    case SplitBehavior::kContiguous: {
      std::vector<ByteRange> joined;
      bool last_matched = false;
      for (const Stretch& stretch : stretches) {
        if (stretch.matched == last_matched && !joined.empty()) {
          joined.back().end = stretch.range.end;
        } else {
          joined.push_back(stretch.range);
        }
        last_matched = stretch.matched;
      }
      for (const ByteRange& range : joined) add_word(range, words);
      return;
    }
    case SplitBehavior::kMergedWithPrevious:
    case SplitBehavior::kMergedWithNext:
      merge_with_neighbour(stretches, behavior == SplitBehavior::kMergedWithPrevious, words);
      return;
  }
}

// Replaces each range of `text` by the words that `step` cuts it into.
Status apply_split(const std::string& text, const SplitStep& step, TextBudget& budget,
                   std::vector<ByteRange>& words) {
  std::vector<ByteRange> result;
  std::vector<ByteRange> matches;
  std::vector<Stretch> stretches;
  result.reserve(words.size() + text.size() / 4);
  for (const ByteRange& piece : words) {
    matches.clear();
    stretches.clear();
    const std::string_view view = std::string_view(text).substr(piece.begin, piece.size());
    ENCORE_RETURN_IF_ERROR(find_matches(view, step, budget, matches));
    size_t done = piece.begin;
    for (const ByteRange& match : matches) {
      const ByteRange range{piece.begin + match.begin, piece.begin + match.end};
      if (range.begin > done) stretches.push_back({{done, range.begin}, step.invert});
      stretches.push_back({range, !step.invert});
      done = range.end;
    }
    if (done < piece.end) stretches.push_back({{done, piece.end}, step.invert});
    apply_behavior(stretches, step.behavior, result);
  }
  words = std::move(result);
  return {};
}

// Rebuilds `text` with each range passed through `rewrite`.
template <typename Rewrite>
Status rewrite_pieces(std::string& text, TextBudget& budget, std::vector<ByteRange>& words,
                      Rewrite rewrite) {
  std::string rebuilt;
  rebuilt.reserve(text.size() + words.size());
  for (ByteRange& piece : words) {
    const size_t begin = rebuilt.size();
    rewrite(std::string_view(text).substr(piece.begin, piece.size()), piece.begin == 0, rebuilt);
    piece = {begin, rebuilt.size()};
  }
  ENCORE_RETURN_IF_ERROR(budget.grow(text.size(), rebuilt.size()));
  text = std::move(rebuilt);
  return {};
}

Status apply_metaspace(std::string& text, bool at_start, const MetaspaceStep& step,
                       TextBudget& budget, std::vector<ByteRange>& words) {
  const auto spell = [&](std::string_view piece, bool first, std::string& out) {
    const std::string spelled = replace_all(piece, " ", step.replacement);
    const bool wanted = step.prepend == MetaspaceStep::Prepend::kAlways ||
                        (step.prepend == MetaspaceStep::Prepend::kFirst && first && at_start);
    if (wanted && !spelled.starts_with(step.replacement)) out += step.replacement;
    out += spelled;
  };
  ENCORE_RETURN_IF_ERROR(rewrite_pieces(text, budget, words, spell));
  if (!step.split) return {};
  return apply_split(text, {step.replacement, SplitBehavior::kMergedWithNext, false}, budget,
                     words);
}

}  // namespace

Status PreTokenizer::split(std::string& text, bool at_start, TextBudget& budget,
                           std::vector<ByteRange>& words) const {
  words.clear();
  if (text.empty()) return {};
  words.push_back({0, text.size()});
  for (const PreTokenizerStep& step : steps_) {
    if (const auto* split_step = std::get_if<SplitStep>(&step)) {
      ENCORE_RETURN_IF_ERROR(apply_split(text, *split_step, budget, words));
    } else if (const auto* metaspace = std::get_if<MetaspaceStep>(&step)) {
      ENCORE_RETURN_IF_ERROR(apply_metaspace(text, at_start, *metaspace, budget, words));
    } else {
      const auto prefix = [](std::string_view piece, bool, std::string& out) {
        if (!piece.starts_with(' ')) out += ' ';
        out += piece;
      };
      ENCORE_RETURN_IF_ERROR(rewrite_pieces(text, budget, words, prefix));
    }
  }
  return {};
}

}  // namespace encore
