// tokenizer.json as a format: components, flags, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "text/tokenizer.h"

namespace encore {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<int32_t>;

constexpr const char* kSpace = "\xE2\x96\x81";  // U+2581

// A tokenizer of characters: a..f are 0..5, U+2581 is 6, x is 7, "ab" is 8, "abc" is 9, unk is 10,
// the bytes of U+00E9 are 11 and 12.
Json character_file() {
  const Json vocabulary = {{"a", 0},      {"b", 1},       {"c", 2},      {"d", 3},  {"e", 4},
                           {"f", 5},      {kSpace, 6},    {"x", 7},      {"ab", 8}, {"abc", 9},
                           {"<unk>", 10}, {"<0xC3>", 11}, {"<0xA9>", 12}};
  const Json decoders =
      Json::array({{{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}},
                   {{"type", "ByteFallback"}},
                   {{"type", "Fuse"}}});
  return {
      {"added_tokens", Json::array()},
      {"normalizer", {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}}},
      {"pre_tokenizer", nullptr},
      {"post_processor", nullptr},
      {"decoder", {{"type", "Sequence"}, {"decoders", decoders}}},
      {"model",
       {{"type", "BPE"},
        {"unk_token", "<unk>"},
        {"vocab", vocabulary},
        {"merges", Json::array({"a b", Json::array({"ab", "c"})})}}}};
}

std::unique_ptr<Tokenizer> load(const Json& file, std::string_view config = "") {
  auto tokenizer = Tokenizer::from_json(file.dump(), config);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  return tokenizer.ok() ? std::move(tokenizer).value() : nullptr;
}

Ids encode(const Json& file, std::string_view text, EncodeOptions options = {}) {
  return load(file)->encode(text, options).value();
}

Status refusal(const Json& file) {
  auto tokenizer = Tokenizer::from_json(file.dump(), "");
  EXPECT_FALSE(tokenizer.ok());
  return tokenizer.ok() ? Status() : tokenizer.status();
}

Json added(int id, const char* text, const Json& flags = Json::object()) {
  Json token = {{"id", id}, {"content", text}, {"special", false}};
  token.update(flags);
  return token;
}

TEST(TokenizerJsonTest, MergesGoByRankThenFromTheLeft) {
  EXPECT_THAT(encode(character_file(), "abcab"), ElementsAre(9, 8));
  EXPECT_THAT(encode(character_file(), "a bc"), ElementsAre(0, 6, 1, 2));
}

TEST(TokenizerJsonTest, UnknownCharactersAreUnkBytesOrNothing) {
  Json file = character_file();
  EXPECT_THAT(encode(file, "aZZb"), ElementsAre(0, 10, 10, 1));
  file["model"]["fuse_unk"] = true;
  EXPECT_THAT(encode(file, "aZZb"), ElementsAre(0, 10, 1));
  file["model"]["byte_fallback"] = true;
  EXPECT_THAT(encode(file, "a\xC3\xA9Z"), ElementsAre(0, 11, 12, 10));
  file["model"]["unk_token"] = nullptr;
  EXPECT_THAT(encode(file, "aZZb"), ElementsAre(8));
}

TEST(TokenizerJsonTest, IgnoreMergesTakesWholeWords) {
  Json file = character_file();
  file["model"]["merges"] = Json::array();
  EXPECT_THAT(encode(file, "abc"), ElementsAre(0, 1, 2));
  file["model"]["ignore_merges"] = true;
  EXPECT_THAT(encode(file, "abc"), ElementsAre(9));
}

TEST(TokenizerJsonTest, MalformedUtf8CountsAsReplacementCharacters) {
  Json file = character_file();
  file["model"]["vocab"]["\xEF\xBF\xBD"] = 13;
  EXPECT_THAT(encode(file,
                     "a\xE2\x96"
                     "b\xFF\xFE"),
              ElementsAre(0, 13, 1, 13, 13));
}

TEST(TokenizerJsonTest, AddedTokensTakeLeftmostLongest) {
  Json file = character_file();
  file["added_tokens"] = {added(20, "bc"), added(21, "bcd"), added(22, "cdef")};
  EXPECT_THAT(encode(file, "abcdef"), ElementsAre(0, 21, 4, 5));
}

TEST(TokenizerJsonTest, StripFlagsTakeWhiteSpace) {
  Json file = character_file();
  file["added_tokens"] = {added(20, "<l>", {{"lstrip", true}}),
                          added(21, "<r>", {{"rstrip", true}})};
  EXPECT_THAT(encode(file, "a \t<l> b"), ElementsAre(0, 20, 6, 1));
  EXPECT_THAT(encode(file, "a <r>\n b"), ElementsAre(0, 6, 21, 1));
  EXPECT_THAT(encode(file, "<r>  <l>"), ElementsAre(21, 20));
}

// The expected ids are the tokenizers library's; where it panics, a token stripped to nothing is
// none.
TEST(TokenizerJsonTest, StrippedWhiteSpaceMayBeATokenToo) {
  Json file = character_file();
  file["normalizer"] = nullptr;
  file["added_tokens"] = {added(20, "cd", {{"lstrip", true}, {"rstrip", true}}), added(21, " ")};
  EXPECT_THAT(encode(file, "acd "), ElementsAre(0, 20, 21));
  EXPECT_THAT(encode(file, "cd  b"), ElementsAre(20, 21, 21, 1));
  EXPECT_THAT(encode(file, " cd cd "), ElementsAre(21, 20, 21, 20, 21));
  file["added_tokens"][1]["lstrip"] = true;
  EXPECT_THAT(encode(file, "acd "), ElementsAre(0, 20));
  EXPECT_THAT(encode(file, "cd  b "), ElementsAre(20, 1, 21));  // the library panics
}

TEST(TokenizerJsonTest, SingleWordTokensStandAlone) {
  Json file = character_file();
  file["added_tokens"] = {added(20, "de", {{"single_word", true}})};
  EXPECT_THAT(encode(file, "de"), ElementsAre(20));
  EXPECT_THAT(encode(file, "a de"), ElementsAre(0, 6, 20));
  EXPECT_THAT(encode(file, "ade"), ElementsAre(0, 3, 4));
  EXPECT_THAT(encode(file, "def"), ElementsAre(3, 4, 5));
}

TEST(TokenizerJsonTest, NormalizedTokensAreSoughtInNormalizedText) {
  Json file = character_file();
  file["added_tokens"] = {added(20, "d e", {{"normalized", true}})};
  EXPECT_THAT(encode(file, "d e"), ElementsAre(20));
  EXPECT_THAT(encode(file,
                     "d\xE2\x96\x81"
                     "e"),
              ElementsAre(20));
}

TEST(TokenizerJsonTest, ControlTokensAreParsedOnlyOnRequest) {
  Json file = character_file();
  file["added_tokens"] = {added(20, "ef", {{"special", true}}), added(21, "cd"),
                          added(22, "<|f|>")};
  EXPECT_THAT(encode(file, "efcd"), ElementsAre(4, 5, 21));
  EXPECT_THAT(encode(file, "efcd", {.parse_special = true}), ElementsAre(20, 21));
  EXPECT_THAT(encode(file, "<|f|>"), ElementsAre(10, 10, 5, 10, 10));
  EXPECT_TRUE(load(file)->is_control(22));
  EXPECT_FALSE(load(file)->is_control(21));
}

TEST(TokenizerJsonTest, TemplateProcessingSurroundsTheText) {
  Json file = character_file();
  const auto special = [](const char* id) { return Json{{"SpecialToken", {{"id", id}}}}; };
  file["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {special("B"), {{"Sequence", {{"id", "A"}}}}, special("E")}},
      {"special_tokens", {{"B", {{"ids", {30}}}}, {"E", {{"ids", {31, 32}}}}}}};
  EXPECT_THAT(encode(file, "a"), ElementsAre(30, 0, 31, 32));
  EXPECT_THAT(encode(file, "a", {.add_special = false}), ElementsAre(0));
}

TEST(TokenizerJsonTest, MetaspacePrependsByScheme) {
  Json file = character_file();
  file["normalizer"] = nullptr;
  file["added_tokens"] = {added(20, "<m>")};
  Json& metaspace = file["pre_tokenizer"];
  metaspace = {{"type", "Metaspace"}, {"replacement", kSpace}, {"split", true}};
  for (const auto& [scheme, expected] : {std::pair<const char*, Ids>{"always", {6, 0, 20, 6, 1}},
                                         {"first", {6, 0, 20, 1}},
                                         {"never", {0, 20, 1}}}) {
    metaspace["prepend_scheme"] = scheme;
    EXPECT_EQ(encode(file, "a<m>b"), expected) << scheme;
  }
}

TEST(TokenizerJsonTest, SplitBehaviorsDecideWhereMatchesGo) {
  Json file = character_file();
  file["normalizer"] = nullptr;
  file["model"]["vocab"].update({{"ax", 13}, {"xb", 14}, {"xx", 15}});
  file["model"]["merges"] = {"a x", "x b", "x x"};
  for (const auto& [behavior, expected] : {std::pair<const char*, Ids>{"Isolated", {0, 7, 7, 1}},
                                           {"Removed", {0, 1}},
                                           {"Contiguous", {0, 15, 1}},
                                           {"MergedWithPrevious", {13, 7, 1}},
                                           {"MergedWithNext", {0, 7, 14}}}) {
    file["pre_tokenizer"] = {{"type", "Split"},
                             {"pattern", {{"Regex", "x"}}},
                             {"behavior", behavior},
                             {"invert", false}};
    EXPECT_EQ(encode(file, "axxb"), expected) << behavior;
  }
}

TEST(TokenizerJsonTest, ConfigNamesSpecialTokensAndTheTemplate) {
  Json file = character_file();
  file["added_tokens"] = {added(20, "<s>", {{"special", true}})};
  const auto tokenizer = load(file, R"({"bos_token": {"content": "<s>"}, "eos_token": "a",
      "pad_token": null, "chat_template": [{"name": "default", "template": "T"}]})");
  EXPECT_EQ(tokenizer->bos(), 20);
  EXPECT_EQ(tokenizer->eos(), 0);
  EXPECT_EQ(tokenizer->parts().chat_template, "T");
  EXPECT_EQ(tokenizer->vocab_size(), 21);
  EXPECT_EQ(tokenizer->token_to_id("abc"), 9);
  EXPECT_EQ(tokenizer->id_to_token(20), "<s>");
  EXPECT_EQ(tokenizer->id_to_token(15), std::nullopt);
}

TEST(TokenizerJsonTest, PostProcessorAloneSurroundsTheText) {
  Json file = character_file();
  file["added_tokens"] = {added(20, "<s>", {{"special", true}}),
                          added(21, "</s>", {{"special", true}})};
  const char* config = R"({"tokenizer_class": "LlamaTokenizerFast", "bos_token": "<s>",
      "eos_token": "</s>", "add_bos_token": true, "add_eos_token": true})";
  EXPECT_THAT(load(file, config)->encode("a").value(), ElementsAre(0));
  file["post_processor"] = {{"type", "ByteLevel"}};
  EXPECT_THAT(load(file, config)->encode("a").value(), ElementsAre(0));
  file["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
      {"special_tokens", {{"<s>", {{"ids", {20}}}}}}};
  EXPECT_THAT(load(file, R"({"bos_token": "<s>", "add_bos_token": false})")->encode("a").value(),
              ElementsAre(20, 0));
}

TEST(TokenizerJsonTest, UnknownComponentsAreRefusedByName) {
  const auto with = [](const char* part, const Json& component) {
    Json file = character_file();
    file[part] = component;
    return refusal(file);
  };
  for (const char* part : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    const Status status = with(part, {{"type", "Sparkle"}});
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
    EXPECT_THAT(status.message(), HasSubstr(std::string(part) + " \"Sparkle\""));
  }
  Json file = character_file();
  file["model"]["type"] = "Unigram";
  EXPECT_THAT(refusal(file).message(), HasSubstr("\"Unigram\""));
}

TEST(TokenizerJsonTest, ContradictionsAreRefused) {
  Json file = character_file();
  file["model"]["merges"].push_back("a q");
  EXPECT_THAT(refusal(file).message(), HasSubstr("merge 2 joins \"a\" and \"q\""));
  file = character_file();
  file["model"]["vocab"]["z"] = 0;
  EXPECT_THAT(refusal(file).message(), HasSubstr("id 0 is given twice"));
  file = character_file();
  file["model"]["vocab"]["z"] = 1 << 22;
  EXPECT_THAT(refusal(file).message(), HasSubstr("4194304 is outside"));
  file = character_file();
  file["model"]["unk_token"] = "no";
  EXPECT_THAT(refusal(file).message(), HasSubstr("unk_token \"no\""));
  file = character_file();
  file["added_tokens"] = {added(3, "a")};
  EXPECT_THAT(refusal(file).message(), HasSubstr("the vocabulary says 0"));
}

TEST(TokenizerJsonTest, MalformedFilesAreRefused) {
  const std::string whole = character_file().dump();
  for (size_t length = 0; length < whole.size(); ++length) {
    ASSERT_FALSE(Tokenizer::from_json(std::string_view(whole).substr(0, length), "").ok());
  }
  std::string deep = R"({"model": )" + std::string(100000, '[');
  EXPECT_THAT(Tokenizer::from_json(deep, "").status().message(), HasSubstr("deeper than 64"));
}

TEST(TokenizerJsonTest, ExpensivePatternIsAnErrorNotAHang) {
  Json file = character_file();
  file["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", "(a+)+$"}}}, {"behavior", "Isolated"}};
  const auto ids = load(file)->encode(std::string(64, 'a') + "b");
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
}

// Each match is cheap here, and there are 100,000 of them.
TEST(TokenizerJsonTest, ExpensiveMatchesAddUpToAnError) {
  Json file = character_file();
  const std::string pattern = R"(\s*[\r\n]+|[\p{L}\p{M}]*\d|\p{L})";
  file["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}};
  const auto tokenizer = load(file);
  EXPECT_THAT(tokenizer->encode("ab").value(), ElementsAre(0, 1));
  const auto ids = tokenizer->encode(std::string(100'000, 'a'));
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(ids.status().message(), HasSubstr(pattern));
  EXPECT_THAT(ids.status().message(), HasSubstr("takes too long"));
}

TEST(TokenizerJsonTest, GrowthOfATextIsBounded) {
  const Json doubling = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  Json file = character_file();
  file["normalizer"] = {{"type", "Sequence"},
                        {"normalizers", Json(std::vector<Json>(28, doubling))}};
  file["added_tokens"] = Json::array();
  const auto ids = load(file)->encode("a");
  ASSERT_FALSE(ids.ok());
  EXPECT_THAT(ids.status().message(), HasSubstr("more than 16 times its size"));

  file["added_tokens"] = {added(20, "a", {{"normalized", true}, {"id", 0}})};
  EXPECT_THAT(refusal(file).message(), HasSubstr("more than 16 times its size"));

  file = character_file();
  file["normalizer"] = {{"type", "Sequence"},
                        {"normalizers", Json(std::vector<Json>(65, doubling))}};
  EXPECT_THAT(refusal(file).message(), HasSubstr("65 steps; the limit is 64"));

  file = character_file();
  file["decoder"] = {{"type", "Sequence"}, {"decoders", Json(std::vector<Json>(7, doubling))}};
  EXPECT_THAT(refusal(file).message(), HasSubstr("more than 64 times its size"));

  // Two prefixes in turn double the number of characters.
  Json steps = Json::array();
  for (int i = 0; i < 32; ++i) {
    steps.push_back({{"type", "Split"}, {"pattern", {{"Regex", "."}}}, {"behavior", "Isolated"}});
    steps.push_back({{"type", "Metaspace"},
                     {"replacement", i % 2 == 0 ? "x" : kSpace},
                     {"prepend_scheme", "always"},
                     {"split", false}});
  }
  file = character_file();
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps}};
  EXPECT_THAT(load(file)->encode("a").status().message(), HasSubstr("more than 16 times its size"));

  file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "__"}};
  EXPECT_THAT(refusal(file).message(), HasSubstr("not one character"));
}

// Found by the fuzzer: a JSON library converts such numbers without a check.
TEST(TokenizerJsonTest, NumbersThatAreNoIntegersAreRefused) {
  const Json bad_numbers = {1e300, -1e300, 1.5, 9223372036854775808U, "1"};
  for (const Json& bad : bad_numbers) {
    SCOPED_TRACE(bad.dump());
    Json added = character_file();
    added["added_tokens"] = {{{"id", bad}, {"content", "<x>"}, {"special", true}}};
    EXPECT_EQ(Tokenizer::from_json(added.dump(), "").status().code(), StatusCode::kDataLoss);

    Json processed = character_file();
    processed["post_processor"] = {{"type", "TemplateProcessing"},
                                   {"single", Json::array({{{"SpecialToken", {{"id", "<x>"}}}},
                                                           {{"Sequence", {{"id", "A"}}}}})},
                                   {"special_tokens", {{"<x>", {{"ids", Json::array({bad})}}}}}};
    EXPECT_EQ(Tokenizer::from_json(processed.dump(), "").status().code(), StatusCode::kDataLoss);

    for (const char* member : {"start", "stop"}) {
      Json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
      strip[member] = bad;
      Json decoded = character_file();
      decoded["decoder"]["decoders"].push_back(strip);
      EXPECT_EQ(Tokenizer::from_json(decoded.dump(), "").status().code(), StatusCode::kDataLoss);
    }
  }
  Json negative = character_file();
  negative["decoder"]["decoders"].push_back(
      {{"type", "Strip"}, {"content", " "}, {"start", -1}, {"stop", 0}});
  EXPECT_EQ(Tokenizer::from_json(negative.dump(), "").status().code(), StatusCode::kDataLoss);
}

TEST(TokenizerBoundsTest, EncodingEndsBeyondTheMostIds) {
  Json file = character_file();
  file["pre_tokenizer"] = {{"type", "Split"},
                           {"pattern", {{"String", kSpace}}},
                           {"behavior", "MergedWithPrevious"},
                           {"invert", false}};
  const auto tokenizer = load(file);
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "d ";
  EXPECT_EQ(tokenizer->encode(text, {}, {.max_ids = 2000, .abandoned = {}}).value().size(), 2000U);
  EXPECT_EQ(tokenizer->encode(text, {}, {.max_ids = 5, .abandoned = {}}).value(),
            Ids({3, 6, 3, 6, 3, 6}));
}

TEST(TokenizerBoundsTest, AbandonedEncodingEndsInTheMiddleOfWordsAndOfAWord) {
  const auto tokenizer = load(character_file());
  int asked = 0;
  const EncodeBounds bounds = {.max_ids = 1 << 30, .abandoned = [&] { return ++asked == 2; }};
  const std::string word(100'000, 'a');
  EXPECT_EQ(tokenizer->encode(word, {}, bounds).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(asked, 2);
  Json file = character_file();
  file["pre_tokenizer"] = {{"type", "Split"},
                           {"pattern", {{"String", kSpace}}},
                           {"behavior", "MergedWithPrevious"},
                           {"invert", false}};
  std::string words;
  for (int i = 0; i < 100'000; ++i) words += "d ";
  asked = 0;
  EXPECT_EQ(load(file)->encode(words, {}, bounds).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(asked, 2);
}

// The longest token is "<0xC3>".
TEST(TokenizerBoundsTest, LengthSaysHowManyIdsThereAreAtLeast) {
  const Json file = character_file();
  EXPECT_EQ(load(file)->least_ids(0), 0);
  EXPECT_EQ(load(file)->least_ids(12), 2);
  EXPECT_EQ(load(file)->least_ids(13), 3);
  Json longer = file;
  longer["added_tokens"] = {added(20, "<a longer one>")};
  EXPECT_EQ(load(longer)->least_ids(28), 2);
  Json composing = file;
  composing["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(load(composing)->least_ids(48), 2);
  Json shrinking = file;
  shrinking["normalizer"] = {
      {"type", "Replace"}, {"pattern", {{"String", "abcde"}}}, {"content", "ab"}};
  EXPECT_EQ(load(shrinking)->least_ids(36), 2);
}

TEST(TokenizerBoundsTest, WhereTextMayVanishItsLengthSaysNothing) {
  const Json file = character_file();
  Json fusing = file;
  fusing["model"]["fuse_unk"] = true;
  EXPECT_EQ(load(fusing)->least_ids(1 << 20), 0);
  Json dropping = file;
  dropping["model"].erase("unk_token");
  EXPECT_EQ(load(dropping)->least_ids(1 << 20), 0);
  Json stripping = file;
  stripping["added_tokens"] = {added(20, "<x>", {{"rstrip", true}})};
  EXPECT_EQ(load(stripping)->least_ids(1 << 20), 0);
  Json removing = file;
  removing["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", "a+"}}}, {"content", "a"}};
  EXPECT_EQ(load(removing)->least_ids(1 << 20), 0);
  Json splitting = file;
  splitting["pre_tokenizer"] = {{"type", "Split"},
                                {"pattern", {{"String", "a"}}},
                                {"behavior", "Removed"},
                                {"invert", false}};
  EXPECT_EQ(load(splitting)->least_ids(1 << 20), 0);
}

}  // namespace
}  // namespace encore
