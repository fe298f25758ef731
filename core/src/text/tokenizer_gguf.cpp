// Tokenizer::from_gguf: the tokenizer.* keys of a GGUF file.
#include <limits>
#include <optional>

#include "text/gguf_pre_tokenizers.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace encore {
namespace {

// Values of tokenizer.ggml.token_type.
enum TokenType : int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kByte = 6 };

constexpr std::string_view kMetaspace = "\xE2\x96\x81";  // U+2581

struct GgufTokens {
  const std::vector<std::string>* texts;
  std::vector<int64_t> types;  // [tokens]

  size_t size() const { return texts->size(); }
};

template <typename T>
Result<const T*> require(const GgufMetadata& metadata, std::string_view key) {
  if (const T* value = gguf_find<T>(metadata, key)) return value;
  if (metadata.contains(key)) return data_loss("GGUF: " + std::string(key) + " has a wrong type");
  return not_found("GGUF: the file has no " + std::string(key));
}

std::optional<bool> find_flag(const GgufMetadata& metadata, std::string_view key) {
  const bool* value = gguf_find<bool>(metadata, key);
  return value == nullptr ? std::nullopt : std::optional<bool>(*value);
}

Result<GgufTokens> read_tokens(const GgufMetadata& metadata) {
  GgufTokens tokens;
  ENCORE_ASSIGN_OR_RETURN(tokens.texts,
                          require<std::vector<std::string>>(metadata, "tokenizer.ggml.tokens"));
  if (tokens.size() > static_cast<size_t>(Vocabulary::kMaxTokens)) {
    return data_loss("GGUF: " + std::to_string(tokens.size()) + " tokens; the limit is " +
                     std::to_string(Vocabulary::kMaxTokens));
  }
  const auto* types = gguf_find<std::vector<int64_t>>(metadata, "tokenizer.ggml.token_type");
  if (types != nullptr && types->size() != tokens.size()) {
    return data_loss("GGUF: " + std::to_string(types->size()) + " token types for " +
                     std::to_string(tokens.size()) + " tokens");
  }
  tokens.types = types != nullptr ? *types : std::vector<int64_t>(tokens.size(), kNormal);
  return tokens;
}

Result<Vocabulary> build_vocabulary(const GgufTokens& tokens) {
  size_t total_bytes = 0;
  for (const std::string& text : *tokens.texts) total_bytes += text.size();
  if (total_bytes > std::numeric_limits<uint32_t>::max()) {
    return data_loss("GGUF: the tokens have " + std::to_string(total_bytes) + " bytes");
  }
  std::string arena;
  arena.reserve(total_bytes);
  std::vector<Vocabulary::Entry> entries;
  entries.reserve(tokens.size());
  for (const std::string& text : *tokens.texts) {
    entries.push_back({static_cast<uint32_t>(arena.size()), static_cast<uint32_t>(text.size()),
                       static_cast<int32_t>(entries.size())});
    arena += text;
  }
  return Vocabulary::build(arena, std::move(entries), Vocabulary::Duplicates::kKeepFirst);
}

Result<BpeModel> read_byte_level_model(const GgufMetadata& metadata, const GgufTokens& tokens,
                                       bool ignore_merges) {
  ENCORE_ASSIGN_OR_RETURN(Vocabulary vocabulary, build_vocabulary(tokens));
  ENCORE_ASSIGN_OR_RETURN(const auto* lines,
                          require<std::vector<std::string>>(metadata, "tokenizer.ggml.merges"));
  std::vector<std::pair<std::string_view, std::string_view>> merges;
  merges.reserve(lines->size());
  for (const std::string_view line : *lines) {
    const size_t space = line.find(' ', 1);
    if (space == std::string_view::npos) {
      return data_loss("GGUF: the merge \"" + std::string(line) + "\" is not two texts");
    }
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  BpeOptions options;
  options.byte_level = true;
  options.ignore_merges = ignore_merges;
  return BpeModel::with_merges(std::move(vocabulary), merges, options);
}

Result<BpeModel> read_scored_model(const GgufMetadata& metadata, const GgufTokens& tokens) {
  ENCORE_ASSIGN_OR_RETURN(Vocabulary vocabulary, build_vocabulary(tokens));
  ENCORE_ASSIGN_OR_RETURN(const auto* given,
                          require<std::vector<double>>(metadata, "tokenizer.ggml.scores"));
  std::vector<float> scores(given->begin(), given->end());
  std::vector<bool> mergeable(tokens.size());
  BpeOptions options;
  options.byte_fallback = true;
  options.fuse_unk = true;
  for (size_t i = 0; i < tokens.size(); ++i) {
    mergeable[i] = tokens.types[i] == kNormal || tokens.types[i] == kUserDefined;
    if (tokens.types[i] == kUnknown) options.unk_id = static_cast<int32_t>(i);
  }
  return BpeModel::with_scores(std::move(vocabulary), scores, std::move(mergeable), options);
}

std::vector<AddedToken> read_added_tokens(const GgufTokens& tokens) {
  std::vector<AddedToken> added;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int64_t type = tokens.types[i];
    if (type != kControl && type != kUserDefined && type != kUnknown) continue;
    AddedToken token;
    token.id = static_cast<int32_t>(i);
    token.text = (*tokens.texts)[i];
    token.special = type != kUserDefined;
    added.push_back(std::move(token));
  }
  return added;
}

// bos and eos by id, and the texts that chat templates refer to.
Status read_special(const GgufMetadata& metadata, const GgufTokens& tokens, TokenizerParts& parts) {
  const std::pair<std::string_view, std::string> names[] = {
      {"tokenizer.ggml.bos_token_id", "bos_token"},
      {"tokenizer.ggml.eos_token_id", "eos_token"},
      {"tokenizer.ggml.unknown_token_id", "unk_token"},
      {"tokenizer.ggml.padding_token_id", "pad_token"},
  };
  for (const auto& [key, name] : names) {
    const uint64_t* id = gguf_find<uint64_t>(metadata, key);
    if (id == nullptr) continue;
    if (*id >= tokens.size()) {
      return data_loss("GGUF: " + std::string(key) + " is " + std::to_string(*id) + "; there are " +
                       std::to_string(tokens.size()) + " tokens");
    }
    if (name == "bos_token") parts.bos = static_cast<int32_t>(*id);
    if (name == "eos_token") parts.eos = static_cast<int32_t>(*id);
    parts.special_texts.emplace_back(name, (*tokens.texts)[*id]);
  }
  return {};
}

Status read_byte_level(const GgufMetadata& metadata, const GgufTokens& tokens,
                       TokenizerParts& parts, bool& add_bos) {
  const std::string* pre = gguf_find<std::string>(metadata, "tokenizer.ggml.pre");
  if (pre == nullptr) {
    return not_found("GGUF: the file has no tokenizer.ggml.pre, so how to split text is unknown");
  }
  ENCORE_ASSIGN_OR_RETURN(NamedPreTokenizer named, named_pre_tokenizer(*pre));
  parts.normalizer = std::move(named.normalizer);
  parts.pre_tokenizer = std::move(named.pre_tokenizer);
  parts.decoder.byte_level = true;
  add_bos = named.add_bos;
  ENCORE_ASSIGN_OR_RETURN(parts.model,
                          read_byte_level_model(metadata, tokens, named.ignore_merges));
  return {};
}

Status read_sentencepiece(const GgufMetadata& metadata, const GgufTokens& tokens,
                          TokenizerParts& parts, bool& add_bos) {
  add_bos = true;
  const bool prefix = find_flag(metadata, "tokenizer.ggml.add_space_prefix").value_or(true);
  std::vector<NormalizerStep> steps;
  if (prefix) steps.emplace_back(PrependText{std::string(kMetaspace)});
  steps.emplace_back(ReplaceText{" ", std::string(kMetaspace)});
  parts.normalizer = Normalizer(std::move(steps));
  parts.decoder.replacements.emplace_back(kMetaspace, " ");
  parts.decoder.byte_fallback = true;
  parts.decoder.strip_text.push_back(' ');
  parts.decoder.strip_count = prefix ? 1 : 0;
  ENCORE_ASSIGN_OR_RETURN(parts.model, read_scored_model(metadata, tokens));
  return {};
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_gguf(const GgufMetadata& metadata) {
  ENCORE_ASSIGN_OR_RETURN(const std::string* model,
                          require<std::string>(metadata, "tokenizer.ggml.model"));
  ENCORE_ASSIGN_OR_RETURN(const GgufTokens tokens, read_tokens(metadata));
  TokenizerParts parts;
  bool add_bos = false;
  if (*model == "gpt2") {
    ENCORE_RETURN_IF_ERROR(read_byte_level(metadata, tokens, parts, add_bos));
  } else if (*model == "llama") {
    ENCORE_RETURN_IF_ERROR(read_sentencepiece(metadata, tokens, parts, add_bos));
  } else {
    std::string message = "GGUF: tokenizer.ggml.model is \"";
    message.append(*model).append("\"; known are gpt2 and llama");
    return unimplemented(std::move(message));
  }
  ENCORE_ASSIGN_OR_RETURN(parts.added,
                          AddedTokens::build(read_added_tokens(tokens), parts.normalizer));
  ENCORE_RETURN_IF_ERROR(read_special(metadata, tokens, parts));
  if (find_flag(metadata, "tokenizer.ggml.add_bos_token").value_or(add_bos) &&
      parts.bos != kNoToken) {
    parts.prefix.push_back(parts.bos);
  }
  if (find_flag(metadata, "tokenizer.ggml.add_eos_token").value_or(false) &&
      parts.eos != kNoToken) {
    parts.suffix.push_back(parts.eos);
  }
  if (const auto* source = gguf_find<std::string>(metadata, "tokenizer.chat_template")) {
    parts.chat_template = *source;
  }
  return std::make_unique<Tokenizer>(std::move(parts));
}

}  // namespace encore
