// Tokenizer::from_json: Hugging Face's tokenizer.json and tokenizer_config.json.
#include <nlohmann/json.hpp>

#include "text/tokenizer.h"
#include "text/tokenizer_components.h"
#include "text/tokenizer_json_sax.h"

namespace encore {
namespace {

using Json = nlohmann::json;

const Json& member(const Json& json, const char* name) {
  static const Json null;
  const auto found = json.find(name);
  return found == json.end() ? null : *found;
}

// Older files leave a flag out; null means false too.
bool flag(const Json& json, const char* name) {
  const Json& value = member(json, name);
  return !value.is_null() && value.get<bool>();
}

// Options that change a model in ways that no decoder-only model uses.
Status check_model(const Json& model) {
  const Json& type = member(model, "type");
  if (!type.is_null() && type.get<std::string>() != "BPE") {
    return unimplemented("tokenizer.json: model \"" + type.get<std::string>() +
                         "\" is not supported; BPE is");
  }
  const Json& dropout = member(model, "dropout");
  if (!dropout.is_null() && dropout.get<double>() != 0.0) {
    return unimplemented("tokenizer.json: model dropout is for training; it must be null");
  }
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json& affix = member(model, name);
    if (!affix.is_null() && !affix.get<std::string>().empty()) {
      return unimplemented(std::string("tokenizer.json: model ") + name + " is not supported");
    }
  }
  return {};
}

Result<BpeModel> read_model(const TokenizerJson& file, bool byte_level) {
  const Json& model = member(file.root, "model");
  if (!model.is_object()) return data_loss("tokenizer.json has no model");
  ENCORE_RETURN_IF_ERROR(check_model(model));
  ENCORE_ASSIGN_OR_RETURN(
      Vocabulary vocabulary,
      Vocabulary::build(file.arena, file.vocabulary, Vocabulary::Duplicates::kRefuse));
  BpeOptions options;
  options.byte_level = byte_level;
  options.byte_fallback = flag(model, "byte_fallback");
  options.fuse_unk = flag(model, "fuse_unk");
  options.ignore_merges = flag(model, "ignore_merges");
  if (byte_level && options.byte_fallback) {
    return unimplemented("tokenizer.json: byte_fallback together with ByteLevel is not supported");
  }
  const Json& unk = member(model, "unk_token");
  if (!unk.is_null()) {
    options.unk_id = vocabulary.find(unk.get<std::string>());
    if (options.unk_id == kNoToken) {
      return data_loss("tokenizer.json: unk_token \"" + unk.get<std::string>() +
                       "\" is not in the vocabulary");
    }
  }
  std::vector<std::pair<std::string_view, std::string_view>> merges;
  merges.reserve(file.merges.size());
  for (const auto& [left, right] : file.merges) {
    merges.emplace_back(file.text(left), file.text(right));
  }
  return BpeModel::with_merges(std::move(vocabulary), merges, options);
}

Result<std::vector<AddedToken>> read_added_tokens(const Json& json, const Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  for (const Json& entry : json) {
    AddedToken token;
    token.text = entry.at("content").get<std::string>();
    ENCORE_ASSIGN_OR_RETURN(
        const int64_t id,
        read_integer(entry.at("id"), "the id of added token \"" + token.text + "\""));
    if (id < 0 || id >= Vocabulary::kMaxTokens) {
      return data_loss("tokenizer.json: added token \"" + token.text + "\" has id " +
                       std::to_string(id));
    }
    token.id = static_cast<int32_t>(id);
    const int32_t known = vocabulary.find(token.text);
    if (known != kNoToken && known != token.id) {
      return data_loss("tokenizer.json: added token \"" + token.text + "\" has id " +
                       std::to_string(id) + ", but the vocabulary says " + std::to_string(known));
    }
    token.single_word = flag(entry, "single_word");
    token.lstrip = flag(entry, "lstrip");
    token.rstrip = flag(entry, "rstrip");
    token.normalized = flag(entry, "normalized");
    token.special = flag(entry, "special");
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// A special token is named by its text, or by an object that has it as "content".
std::string token_text(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  return json.is_object() ? json.value("content", std::string()) : std::string();
}

// One template, or a list of named ones, of which "default" is the one.
std::string read_chat_template(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_array()) return {};
  for (const Json& entry : json) {
    if (entry.value("name", std::string()) == "default") {
      return entry.value("template", std::string());
    }
  }
  return {};
}

// add_bos_token and add_eos_token are not read: transformers 5 drops them beside a tokenizer.json,
// whose post-processor says what surrounds a text (but its CodeLlamaTokenizer adds a BOS whatever
// the files say). transformers 4 built that of Llama, Code Llama and Gemma tokenizers anew from the
// two, and so put a BOS before DeepSeek-V3's texts.
void read_config(const Json& config, TokenizerParts& parts) {
  if (!config.is_object()) return;
  for (const auto& [name, value] : config.items()) {
    if (!name.ends_with("_token")) continue;
    std::string text = token_text(value);
    if (!text.empty()) parts.special_texts.emplace_back(name, std::move(text));
  }
  parts.chat_template = read_chat_template(member(config, "chat_template"));
}

Result<TokenizerParts> read_parts(std::string_view tokenizer_json, std::string_view config_json) {
  ENCORE_ASSIGN_OR_RETURN(const TokenizerJson file, parse_tokenizer_json(tokenizer_json));
  if (!file.root.is_object()) return data_loss("tokenizer.json is not an object");
  TokenizerParts parts;
  ENCORE_ASSIGN_OR_RETURN(PreTokenizerParts pre,
                          read_pre_tokenizer(member(file.root, "pre_tokenizer")));
  parts.pre_tokenizer = std::move(pre.pre_tokenizer);
  ENCORE_ASSIGN_OR_RETURN(parts.model, read_model(file, pre.byte_level));
  ENCORE_ASSIGN_OR_RETURN(parts.normalizer, read_normalizer(member(file.root, "normalizer")));
  ENCORE_ASSIGN_OR_RETURN(parts.decoder, read_decoder(member(file.root, "decoder")));
  ENCORE_ASSIGN_OR_RETURN(PostProcessorParts post,
                          read_post_processor(member(file.root, "post_processor")));
  parts.prefix = std::move(post.prefix);
  parts.suffix = std::move(post.suffix);
  ENCORE_ASSIGN_OR_RETURN(
      std::vector<AddedToken> added,
      read_added_tokens(member(file.root, "added_tokens"), parts.model.vocabulary()));
  ENCORE_ASSIGN_OR_RETURN(parts.added, AddedTokens::build(std::move(added), parts.normalizer));
  if (!config_json.empty()) read_config(Json::parse(config_json), parts);
  return parts;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_json(std::string_view tokenizer_json,
                                                        std::string_view tokenizer_config_json) {
  try {
    ENCORE_ASSIGN_OR_RETURN(TokenizerParts parts,
                            read_parts(tokenizer_json, tokenizer_config_json));
    auto tokenizer = std::make_unique<Tokenizer>(std::move(parts));
    for (const auto& [name, text] : tokenizer->parts_.special_texts) {
      if (name == "bos_token")
        tokenizer->parts_.bos = tokenizer->token_to_id(text).value_or(kNoToken);
      if (name == "eos_token")
        tokenizer->parts_.eos = tokenizer->token_to_id(text).value_or(kNoToken);
    }
    return tokenizer;
  } catch (const std::exception& e) {
    return data_loss(std::string("tokenizer files: ") + e.what());
  }
}

}  // namespace encore
