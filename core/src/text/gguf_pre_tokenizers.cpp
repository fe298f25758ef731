#include "text/gguf_pre_tokenizers.h"

#include <array>
#include <string>
#include <vector>

namespace encore {
namespace {

// Patterns as the models' own tokenizer.json files have them.
constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kThreeDigitsPattern = R"(\p{N}{1,3})";
constexpr std::string_view kDigitPattern = R"(\p{N})";
constexpr std::string_view kChineseJapanesePattern = "[一-龥\u3040-ゟ゠-ヿ]+";
constexpr std::string_view kDeepseekV3Pattern =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^)"
    "\r\n"
    R"(\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[)"
    "\r\n"
    R"(]*|\s*[)"
    "\r\n"
    R"(]+|\s+(?!\S)|\s+)";

struct Recipe {
  std::string_view name;
  std::array<std::string_view, 3> patterns;  // each isolates its matches; empty ones are skipped
  bool nfc, ignore_merges, add_bos;
};

constexpr Recipe kRecipes[] = {
    {"gpt-2", {kGpt2Pattern}, false, false, false},
    {"llama-bpe", {kLlama3Pattern}, false, true, true},
    {"qwen2", {kQwen2Pattern}, true, false, false},
    {"deepseek-r1-qwen", {kQwen2Pattern}, true, false, false},
    {"smollm", {kDigitPattern, kGpt2Pattern}, false, false, false},
    {"starcoder", {kDigitPattern, kGpt2Pattern}, false, false, false},
    {"refact", {kDigitPattern, kGpt2Pattern}, false, false, false},
    {"tekken", {kTekkenPattern}, false, true, false},
    {"deepseek-v3",
     {kThreeDigitsPattern, kChineseJapanesePattern, kDeepseekV3Pattern},
     false,
     false,
     false},
};

}  // namespace

Result<NamedPreTokenizer> named_pre_tokenizer(std::string_view name) {
  std::string known;
  for (const Recipe& recipe : kRecipes) {
    known.append(known.empty() ? "" : ", ").append(recipe.name);
    if (recipe.name != name) continue;
    std::vector<PreTokenizerStep> steps;
    for (const std::string_view pattern : recipe.patterns) {
      if (pattern.empty()) continue;
      ENCORE_ASSIGN_OR_RETURN(Regex regex, Regex::compile(pattern));
      steps.emplace_back(SplitStep{std::move(regex), SplitBehavior::kIsolated, false});
    }
    NamedPreTokenizer named;
    if (recipe.nfc) named.normalizer = Normalizer({UnicodeForm::kNfc});
    named.pre_tokenizer = PreTokenizer(std::move(steps));
    named.ignore_merges = recipe.ignore_merges;
    named.add_bos = recipe.add_bos;
    return named;
  }
  return unimplemented("GGUF: tokenizer.ggml.pre is \"" + std::string(name) + "\"; known are " +
                       known);
}

}  // namespace encore
