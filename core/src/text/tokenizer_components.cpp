#include "text/tokenizer_components.h"

#include <algorithm>
#include <limits>
#include <string>

#include "text/utf8.h"
#include "text/vocabulary.h"

namespace encore {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxSteps = 64;          // of a component; published files have up to ten
constexpr size_t kMaxDecoderGrowth = 64;  // of a token's text

Status unknown(std::string_view component, std::string_view what) {
  return unimplemented("tokenizer.json: " + std::string(component) + " \"" + std::string(what) +
                       "\" is not supported");
}

std::string type_of(const Json& json) { return json.at("type").get<std::string>(); }

// The list under `member` for a Sequence, else just the component; nothing for null. A Sequence
// inside a Sequence is laid out flat.
void flatten(const Json& json, const char* member, std::vector<const Json*>& out) {
  if (json.is_null()) return;
  if (type_of(json) != "Sequence") {
    out.push_back(&json);
    return;
  }
  for (const Json& child : json.at(member)) flatten(child, member, out);
}

Status check_steps(const char* member, size_t count) {
  if (count <= kMaxSteps) return {};
  return unimplemented("tokenizer.json: the " + std::string(member) + " have " +
                       std::to_string(count) + " steps; the limit is " + std::to_string(kMaxSteps));
}

// {"String": "..."} is a literal, {"Regex": "..."} an expression.
Result<std::variant<std::string, Regex>> read_pattern(const Json& json) {
  if (json.contains("String")) {
    auto literal = json.at("String").get<std::string>();
    if (literal.empty()) return data_loss("tokenizer.json: a pattern is empty");
    return std::variant<std::string, Regex>(std::move(literal));
  }
  ENCORE_ASSIGN_OR_RETURN(Regex regex, Regex::compile(json.at("Regex").get<std::string>()));
  return std::variant<std::string, Regex>(std::move(regex));
}

Result<NormalizerStep> read_normalizer_step(const Json& json) {
  const std::string type = type_of(json);
  if (type == "NFC") return NormalizerStep(UnicodeForm::kNfc);
  if (type == "NFD") return NormalizerStep(UnicodeForm::kNfd);
  if (type == "NFKC") return NormalizerStep(UnicodeForm::kNfkc);
  if (type == "NFKD") return NormalizerStep(UnicodeForm::kNfkd);
  if (type == "Prepend") return NormalizerStep(PrependText{json.at("prepend").get<std::string>()});
  if (type == "Replace") {
    auto content = json.at("content").get<std::string>();
    ENCORE_ASSIGN_OR_RETURN(auto pattern, read_pattern(json.at("pattern")));
    if (auto* literal = std::get_if<std::string>(&pattern)) {
      return NormalizerStep(ReplaceText{std::move(*literal), std::move(content)});
    }
    return NormalizerStep(ReplacePattern{std::get<Regex>(std::move(pattern)), std::move(content)});
  }
  return unknown("normalizer", type);
}

Result<SplitBehavior> read_behavior(const std::string& name) {
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return unknown("split behavior", name);
}

Result<MetaspaceStep> read_metaspace(const Json& json) {
  auto replacement = json.at("replacement").get<std::string>();
  if (replacement.empty() || utf8_step(replacement, 0).length != replacement.size()) {
    return data_loss("tokenizer.json: the replacement of Metaspace is not one character");
  }
  // Older files say add_prefix_space instead of prepend_scheme.
  const bool add_prefix = json.value("add_prefix_space", true);
  const std::string scheme = json.value("prepend_scheme", add_prefix ? "always" : "never");
  const bool split = json.value("split", true);
  if (scheme == "always") {
    return MetaspaceStep{std::move(replacement), MetaspaceStep::Prepend::kAlways, split};
  }
  if (scheme == "first") {
    return MetaspaceStep{std::move(replacement), MetaspaceStep::Prepend::kFirst, split};
  }
  if (scheme == "never") {
    return MetaspaceStep{std::move(replacement), MetaspaceStep::Prepend::kNever, split};
  }
  return unknown("Metaspace prepend_scheme", scheme);
}

Status add_split(const Json& json, std::vector<PreTokenizerStep>& steps) {
  ENCORE_ASSIGN_OR_RETURN(auto pattern, read_pattern(json.at("pattern")));
  ENCORE_ASSIGN_OR_RETURN(const SplitBehavior behavior,
                          read_behavior(json.at("behavior").get<std::string>()));
  steps.emplace_back(SplitStep{std::move(pattern), behavior, json.value("invert", false)});
  return {};
}

Status add_pattern(std::string_view pattern, SplitBehavior behavior,
                   std::vector<PreTokenizerStep>& steps) {
  ENCORE_ASSIGN_OR_RETURN(Regex regex, Regex::compile(pattern));
  steps.emplace_back(SplitStep{std::move(regex), behavior, false});
  return {};
}

Status add_pre_tokenizer_steps(const Json& json, std::vector<PreTokenizerStep>& steps) {
  const std::string type = type_of(json);
  if (type == "Split") return add_split(json, steps);
  if (type == "Digits") {
    const bool individual = json.value("individual_digits", false);
    return add_pattern(R"(\p{N})",
                       individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, steps);
  }
  if (type == "Metaspace") {
    ENCORE_ASSIGN_OR_RETURN(MetaspaceStep step, read_metaspace(json));
    steps.emplace_back(std::move(step));
    return {};
  }
  if (type != "ByteLevel") return unknown("pre_tokenizer", type);
  if (json.value("add_prefix_space", true)) steps.emplace_back(SpacePrefixStep{});
  if (!json.value("use_regex", true)) return {};
  return add_pattern(kGpt2Pattern, SplitBehavior::kIsolated, steps);
}

Status add_strip(const Json& json, bool fused, TokenDecoder& decoder) {
  decoder.strip_text = json.at("content").get<std::string>();
  ENCORE_ASSIGN_OR_RETURN(const int64_t start,
                          read_integer(json.at("start"), "the start of the Strip decoder"));
  if (start < 0) {
    return data_loss("tokenizer.json: the start of the Strip decoder is " + std::to_string(start));
  }
  decoder.strip_count = static_cast<size_t>(start);
  if (json.contains("stop")) {
    ENCORE_ASSIGN_OR_RETURN(const int64_t stop,
                            read_integer(json.at("stop"), "the stop of the Strip decoder"));
    if (stop != 0) return unknown("decoder", "Strip at the end");
  }
  if (!fused) return unknown("decoder", "Strip before Fuse");
  if (decoder.strip_text.empty()) return data_loss("tokenizer.json: Strip has no content");
  return {};
}

// Appends the ids of one TemplateProcessing token.
Status add_special(const Json& processor, const std::string& name, std::vector<int32_t>& ids) {
  for (const Json& id : processor.at("special_tokens").at(name).at("ids")) {
    ENCORE_ASSIGN_OR_RETURN(const int64_t value,
                            read_integer(id, "an id of post_processor token " + name));
    if (value < 0 || value >= Vocabulary::kMaxTokens) {
      return data_loss("tokenizer.json: post_processor token " + name + " has id " +
                       std::to_string(value));
    }
    ids.push_back(static_cast<int32_t>(value));
  }
  return {};
}

Status add_template(const Json& processor, PostProcessorParts& parts) {
  bool before = true;
  for (const Json& item : processor.at("single")) {
    if (item.contains("Sequence")) {
      if (!before) return unknown("post_processor", "a text that is repeated");
      before = false;
      continue;
    }
    ENCORE_RETURN_IF_ERROR(add_special(processor,
                                       item.at("SpecialToken").at("id").get<std::string>(),
                                       before ? parts.prefix : parts.suffix));
  }
  if (before) return unknown("post_processor", "a template without the text");
  return {};
}

}  // namespace

Result<int64_t> read_integer(const Json& json, const std::string& what) {
  const bool too_large =
      json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  if (!json.is_number_integer() || too_large) {
    return data_loss("tokenizer.json: " + what + " is not an integer below 2^63");
  }
  return json.get<int64_t>();
}

Result<Normalizer> read_normalizer(const Json& json) {
  std::vector<const Json*> components;
  flatten(json, "normalizers", components);
  ENCORE_RETURN_IF_ERROR(check_steps("normalizers", components.size()));
  std::vector<NormalizerStep> steps;
  for (const Json* component : components) {
    ENCORE_ASSIGN_OR_RETURN(NormalizerStep step, read_normalizer_step(*component));
    steps.push_back(std::move(step));
  }
  return Normalizer(std::move(steps));
}

Result<PreTokenizerParts> read_pre_tokenizer(const Json& json) {
  std::vector<const Json*> components;
  flatten(json, "pretokenizers", components);
  ENCORE_RETURN_IF_ERROR(check_steps("pretokenizers", components.size()));
  PreTokenizerParts parts;
  std::vector<PreTokenizerStep> steps;
  for (const Json* component : components) {
    if (parts.byte_level) return unknown("pre_tokenizer", type_of(*component) + " after ByteLevel");
    ENCORE_RETURN_IF_ERROR(add_pre_tokenizer_steps(*component, steps));
    parts.byte_level = type_of(*component) == "ByteLevel";
  }
  parts.pre_tokenizer = PreTokenizer(std::move(steps));
  return parts;
}

Result<TokenDecoder> read_decoder(const Json& json) {
  std::vector<const Json*> components;
  flatten(json, "decoders", components);
  ENCORE_RETURN_IF_ERROR(check_steps("decoders", components.size()));
  if (components.empty()) return unknown("decoder", "null");
  TokenDecoder decoder;
  bool fused = false;
  size_t growth = 1;
  for (const Json* component : components) {
    const std::string type = type_of(*component);
    if (type == "ByteLevel" && components.size() == 1) {
      decoder.byte_level = true;
    } else if (type == "ByteFallback") {
      decoder.byte_fallback = true;
    } else if (type == "Fuse") {
      fused = true;
    } else if (type == "Strip") {
      ENCORE_RETURN_IF_ERROR(add_strip(*component, fused, decoder));
    } else if (type == "Replace" && component->at("pattern").contains("String") && !fused) {
      decoder.replacements.emplace_back(component->at("pattern").at("String").get<std::string>(),
                                        component->at("content").get<std::string>());
      if (decoder.replacements.back().first.empty()) {
        return data_loss("tokenizer.json: decoder Replace has an empty pattern");
      }
      const auto& [from, to] = decoder.replacements.back();
      growth *= std::max<size_t>(1, (to.size() + from.size() - 1) / from.size());
      if (growth > kMaxDecoderGrowth) {
        return unimplemented(
            "tokenizer.json: the decoders' replacements make a text grow by more "
            "than " +
            std::to_string(kMaxDecoderGrowth) + " times its size");
      }
    } else if (type == "Metaspace" && components.size() == 1) {
      ENCORE_ASSIGN_OR_RETURN(MetaspaceStep step, read_metaspace(*component));
      if (step.prepend != MetaspaceStep::Prepend::kNever) {
        decoder.drop_in_first_token = step.replacement;
      }
      decoder.replacements.emplace_back(std::move(step.replacement), " ");
    } else {
      return unknown("decoder", type);
    }
  }
  return decoder;
}

Result<PostProcessorParts> read_post_processor(const Json& json) {
  std::vector<const Json*> components;
  flatten(json, "processors", components);
  PostProcessorParts parts;
  for (const Json* component : components) {
    const std::string type = type_of(*component);
    if (type == "TemplateProcessing") {
      ENCORE_RETURN_IF_ERROR(add_template(*component, parts));
    } else if (type != "ByteLevel") {  // ByteLevel only trims offsets
      return unknown("post_processor", type);
    }
  }
  return parts;
}

}  // namespace encore
