#include "text/tokenizer.h"

#include <algorithm>

#include "text/detokenizer.h"
#include "text/id_bytes.h"
#include "text/utf8.h"

namespace encore {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;

Status check_size(std::string_view text) {
  if (text.size() <= kMaxTextBytes) return {};
  return invalid_argument("the text has " + std::to_string(text.size()) + " bytes; the limit is " +
                          std::to_string(kMaxTextBytes) + ": encode it in parts");
}

}  // namespace

Tokenizer::Tokenizer(TokenizerParts parts)
    : parts_(std::move(parts)), max_bytes_per_id_(encore::max_bytes_per_id(parts_)) {}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, EncodeOptions options,
                                               const EncodeBounds& bounds) const {
  ENCORE_RETURN_IF_ERROR(check_size(text));
  Progress progress(bounds);
  if (options.add_special) progress.ids = parts_.prefix;
  if (is_valid_utf8(text)) {
    ENCORE_RETURN_IF_ERROR(append_text(text, options.parse_special, {}, progress));
  } else {
    ENCORE_RETURN_IF_ERROR(
        append_text(replace_malformed_utf8(text), options.parse_special, {}, progress));
  }
  std::vector<int32_t>& ids = progress.ids;
  if (options.add_special) ids.insert(ids.end(), parts_.suffix.begin(), parts_.suffix.end());
  return std::move(ids);
}

Result<std::vector<int32_t>> Tokenizer::encode_prompt(const PromptText& prompt,
                                                      const EncodeBounds& bounds) const {
  ENCORE_RETURN_IF_ERROR(check_size(prompt.text));
  if (!is_valid_utf8(prompt.text)) return invalid_argument("the prompt is not valid UTF-8");
  std::vector<ForcedToken> forced;
  size_t done = 0;
  for (const ByteRange& range : prompt.control) {
    if (range.begin < done || range.end < range.begin || range.end > prompt.text.size()) {
      return invalid_argument("the prompt's control ranges overlap or leave the text");
    }
    const std::string_view text = std::string_view(prompt.text).substr(range.begin, range.size());
    const AddedToken* token = parts_.added.by_text(text);
    if (token == nullptr) {
      return invalid_argument("the prompt marks \"" + std::string(text) +
                              "\" as a control token; the tokenizer has no such token");
    }
    forced.push_back({range, token->id});
    done = range.end;
  }
  Progress progress(bounds);
  ENCORE_RETURN_IF_ERROR(append_text(prompt.text, prompt.parse_special, forced, progress));
  return std::move(progress.ids);
}

int64_t Tokenizer::least_ids(int64_t text_bytes) const {
  if (max_bytes_per_id_ == 0) return 0;
  return (text_bytes + max_bytes_per_id_ - 1) / max_bytes_per_id_;
}

Status Tokenizer::append_text(std::string_view text, bool match_control,
                              std::span<const ForcedToken> forced, Progress& progress) const {
  TextBudget budget(text.size());
  std::vector<TextPart> parts;
  parts_.added.split(text, /*normalized=*/false, match_control, forced, parts);
  for (const TextPart& part : parts) {
    if (progress.may_end()) break;
    if (part.id != kNoToken) {
      progress.ids.push_back(part.id);
      continue;
    }
    const std::string_view piece = text.substr(part.range.begin, part.range.size());
    ENCORE_RETURN_IF_ERROR(
        append_piece(piece, part.range.begin == 0, match_control, budget, progress));
  }
  if (progress.abandoned.said_so()) return cancelled("nobody waits for the text any more");
  return {};
}

Status Tokenizer::append_piece(std::string_view piece, bool at_start, bool match_control,
                               TextBudget& budget, Progress& progress) const {
  std::string normalized;
  if (!parts_.normalizer.empty()) {
    ENCORE_ASSIGN_OR_RETURN(normalized, parts_.normalizer.apply(piece, budget));
    piece = normalized;
  }
  std::vector<TextPart> parts;
  parts_.added.split(piece, /*normalized=*/true, match_control, {}, parts);
  std::string text;
  std::vector<ByteRange> words;
  for (const TextPart& part : parts) {
    if (progress.may_end()) return {};
    if (part.id != kNoToken) {
      progress.ids.push_back(part.id);
      continue;
    }
    text = piece.substr(part.range.begin, part.range.size());
    ENCORE_RETURN_IF_ERROR(
        parts_.pre_tokenizer.split(text, at_start && part.range.begin == 0, budget, words));
    for (const ByteRange& word : words) {
      if (progress.may_end()) return {};
      parts_.model.encode(std::string_view(text).substr(word.begin, word.size()),
                          progress.abandoned, progress.ids);
    }
  }
  return {};
}

std::string Tokenizer::decode(std::span<const int32_t> ids, DecodeOptions options) const {
  StreamingDetokenizer detokenizer(*this, options);
  std::string text;
  for (const int32_t id : ids) text += detokenizer.push(id);
  return text += detokenizer.finish();
}

int32_t Tokenizer::vocab_size() const {
  const auto& added = parts_.added.tokens();
  const int32_t with_added = added.empty() ? 0 : added.back().id + 1;
  return std::max(parts_.model.vocabulary().size(), with_added);
}

std::optional<int32_t> Tokenizer::token_to_id(std::string_view text) const {
  if (const AddedToken* token = parts_.added.by_text(text)) return token->id;
  const int32_t id = parts_.model.vocabulary().find(text);
  return id == kNoToken ? std::nullopt : std::optional<int32_t>(id);
}

std::optional<std::string_view> Tokenizer::id_to_token(int32_t id) const {
  if (const AddedToken* token = parts_.added.by_id(id)) return token->text;
  const std::string_view text = parts_.model.vocabulary().text(id);
  return text.empty() ? std::nullopt : std::optional<std::string_view>(text);
}

bool Tokenizer::is_control(int32_t id) const {
  const AddedToken* token = parts_.added.by_id(id);
  return token != nullptr && token->is_control();
}

bool Tokenizer::is_special(int32_t id) const {
  const AddedToken* token = parts_.added.by_id(id);
  return token != nullptr && token->special;
}

}  // namespace encore
