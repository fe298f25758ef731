// Tokenizers from GGUF keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "test_lines.h"
#include "test_tokenizers.h"

namespace encore {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Texts = std::vector<std::string>;
using Numbers = std::vector<int64_t>;

GgufMetadata byte_level_keys() {
  return {
      {"tokenizer.ggml.model", std::string("gpt2")},
      {"tokenizer.ggml.pre", std::string("gpt-2")},
      {"tokenizer.ggml.tokens", Texts{"a", "b", "ab", "\xC4\xA0", "1", "2", "12", "<s>", "<x>"}},
      {"tokenizer.ggml.token_type", Numbers{1, 1, 1, 1, 1, 1, 1, 3, 4}},
      {"tokenizer.ggml.merges", Texts{"a b", "1 2"}},
      {"tokenizer.ggml.bos_token_id", uint64_t{7}},
      {"tokenizer.chat_template", std::string("T")}};
}

Status refusal(const GgufMetadata& metadata) {
  auto tokenizer = Tokenizer::from_gguf(metadata);
  EXPECT_FALSE(tokenizer.ok());
  return tokenizer.ok() ? Status() : tokenizer.status();
}

TEST(TokenizerGgufTest, TokenTypesDecideWhatIsControl) {
  const auto tokenizer = Tokenizer::from_gguf(byte_level_keys()).value();
  EXPECT_TRUE(tokenizer->is_control(7));
  EXPECT_FALSE(tokenizer->is_control(8));
  EXPECT_THAT(tokenizer->encode("ab<x>").value(), ElementsAre(2, 8));
  EXPECT_THAT(tokenizer->encode("<s>ab", {.parse_special = true}).value(), ElementsAre(7, 2));
  EXPECT_EQ(tokenizer->bos(), 7);
  EXPECT_EQ(tokenizer->eos(), kNoToken);
  EXPECT_EQ(tokenizer->parts().chat_template, "T");
}

TEST(TokenizerGgufTest, BosIsAddedWhenTheFileSaysSo) {
  GgufMetadata keys = byte_level_keys();
  EXPECT_THAT(Tokenizer::from_gguf(keys).value()->encode("a").value(), ElementsAre(0));
  keys["tokenizer.ggml.add_bos_token"] = true;
  EXPECT_THAT(Tokenizer::from_gguf(keys).value()->encode("a").value(), ElementsAre(7, 0));
}

TEST(TokenizerGgufTest, PreTokenizerNameDecidesHowDigitsSplit) {
  GgufMetadata keys = byte_level_keys();
  EXPECT_THAT(Tokenizer::from_gguf(keys).value()->encode("12").value(), ElementsAre(6));
  keys["tokenizer.ggml.pre"] = std::string("smollm");
  EXPECT_THAT(Tokenizer::from_gguf(keys).value()->encode("12").value(), ElementsAre(4, 5));
}

TEST(TokenizerGgufTest, WhatIsUnknownOrWrongIsNamed) {
  GgufMetadata keys = byte_level_keys();
  keys["tokenizer.ggml.pre"] = std::string("sparkle");
  EXPECT_EQ(refusal(keys).code(), StatusCode::kUnimplemented);
  EXPECT_THAT(refusal(keys).message(), HasSubstr("\"sparkle\"; known are gpt-2"));
  keys = byte_level_keys();
  keys["tokenizer.ggml.model"] = std::string("t5");
  EXPECT_THAT(refusal(keys).message(), HasSubstr("\"t5\""));
  keys = byte_level_keys();
  keys.erase("tokenizer.ggml.merges");
  EXPECT_EQ(refusal(keys).code(), StatusCode::kNotFound);
  keys = byte_level_keys();
  keys["tokenizer.ggml.token_type"] = Numbers{1};
  EXPECT_THAT(refusal(keys).message(), HasSubstr("1 token types for 9 tokens"));
  keys = byte_level_keys();
  keys["tokenizer.ggml.bos_token_id"] = uint64_t{9};
  EXPECT_THAT(refusal(keys).message(), HasSubstr("bos_token_id is 9"));
  keys = byte_level_keys();
  keys["tokenizer.ggml.merges"] = Texts{"ab"};
  EXPECT_THAT(refusal(keys).message(), HasSubstr("\"ab\" is not two texts"));
}

// A SentencePiece score for each token: the higher, the earlier tokenizer.json merges into it.
std::vector<double> scores_of(const Tokenizer& tokenizer, const std::string& tokenizer_json) {
  std::vector<double> scores(tokenizer.vocab_size(), -1e9);
  double rank = 0;
  const auto file = nlohmann::json::parse(tokenizer_json);
  for (const auto& merge : file.at("model").at("merges")) {
    std::string text = merge.get<std::string>();
    text.erase(text.find(' '), 1);
    double& score = scores[tokenizer.token_to_id(text).value()];
    score = std::max(score, -rank++);
  }
  return scores;
}

// Llama 2's vocabulary as a GGUF file has it: tokens and scores, no merges.
TEST(TokenizerGgufTest, ScoresGiveTheIdsThatMergesGive) {
  ENCORE_LOAD_OR_SKIP(reference, "llama2");
  Texts tokens;
  Numbers types;
  for (int32_t id = 0; id < reference->vocab_size(); ++id) {
    tokens.emplace_back(reference->id_to_token(id).value());
    types.push_back(id == 0 ? 2 : id < 3 ? 3 : id < 259 ? 6 : 1);
  }
  const GgufMetadata keys = {
      {"tokenizer.ggml.model", std::string("llama")},
      {"tokenizer.ggml.tokens", tokens},
      {"tokenizer.ggml.token_type", types},
      {"tokenizer.ggml.scores", scores_of(*reference, test_tokenizer_json("llama2"))},
      {"tokenizer.ggml.bos_token_id", uint64_t{1}},
      {"tokenizer.ggml.eos_token_id", uint64_t{2}}};
  const auto tokenizer = Tokenizer::from_gguf(keys).value();
  for (const std::string& line : make_test_lines()) {
    const auto expected = reference->encode(line).value();
    ASSERT_EQ(tokenizer->encode(line).value(), expected) << testing::PrintToString(line);
    ASSERT_EQ(tokenizer->decode(expected), reference->decode(expected));
  }
}

}  // namespace
}  // namespace encore
