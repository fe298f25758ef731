// Decoding one token at a time. The expected texts are what the tokenizers library decodes to.
#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include "test_tokenizers.h"
#include "text/utf8.h"

namespace encore {
namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";
constexpr const char* kFamily =
    "\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7";

class DetokenizerTest : public testing::TestWithParam<const char*> {};

std::vector<std::string> deltas(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                                DecodeOptions options = {}) {
  StreamingDetokenizer detokenizer(tokenizer, options);
  std::vector<std::string> out;
  out.reserve(ids.size() + 1);
  for (const int32_t id : ids) out.push_back(detokenizer.push(id));
  out.push_back(detokenizer.finish());
  return out;
}

std::string join(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) joined += text;
  return joined;
}

TEST_P(DetokenizerTest, DeltasAreWholeCharactersOfTheText) {
  ENCORE_LOAD_OR_SKIP(tokenizer, GetParam());
  for (const std::string text : {"\xE8\x81\xAA", kFamily, "a    b", "one\nword",
                                 "\xF0\x93\x80\x80 x", " leading", "a b c"}) {
    const auto ids = tokenizer->encode(text, {.add_special = false});
    ASSERT_TRUE(ids.ok());
    const std::vector<std::string> streamed = deltas(*tokenizer, *ids);
    EXPECT_EQ(join(streamed), text);
    EXPECT_EQ(tokenizer->decode(*ids), text);
    for (const std::string& delta : streamed) {
      EXPECT_TRUE(is_valid_utf8(delta));
      EXPECT_EQ(delta.find(kReplacement), std::string::npos);
    }
  }
}

TEST_P(DetokenizerTest, CutCharacterIsOneReplacementAtTheEnd) {
  ENCORE_LOAD_OR_SKIP(tokenizer, GetParam());
  auto ids = tokenizer->encode("ab\xF0\x93\x80\x80", {.add_special = false});
  ASSERT_TRUE(ids.ok());
  ids->pop_back();  // every one of the six spells this character in several tokens
  const std::vector<std::string> streamed = deltas(*tokenizer, *ids);
  EXPECT_EQ(join(streamed), std::string("ab") + kReplacement);
  EXPECT_EQ(streamed.back(), kReplacement);
  EXPECT_EQ(tokenizer->decode(*ids), std::string("ab") + kReplacement);
}

TEST_P(DetokenizerTest, ContinuedTextKeepsItsLeadingSpace) {
  ENCORE_LOAD_OR_SKIP(tokenizer, GetParam());
  const auto ids = tokenizer->encode("one two", {.add_special = false});
  ASSERT_TRUE(ids.ok());
  const std::vector<int32_t> rest(ids->begin() + 1, ids->end());
  EXPECT_EQ(join(deltas(*tokenizer, rest, {.continues_text = true})), " two");
}

TEST_P(DetokenizerTest, IdsOutsideTheVocabularyDecodeToNothing) {
  ENCORE_LOAD_OR_SKIP(tokenizer, GetParam());
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{-1, tokenizer->vocab_size(), 1 << 30}), "");
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, DetokenizerTest,
                         testing::Values("deepseek_v3", "gemma3", "llama2", "llama3_1", "qwen3",
                                         "smollm2"),
                         [](const auto& param) { return std::string(param.param); });

TEST(ByteFallbackTest, ByteTokensFormCharacters) {
  ENCORE_LOAD_OR_SKIP(tokenizer, "llama2");
  std::vector<int32_t> ids;
  for (const char* text : {"<0xE8>", "<0x81>", "<0xAA>", "<0x0A>"}) {
    ids.push_back(tokenizer->token_to_id(text).value());
  }
  EXPECT_EQ(deltas(*tokenizer, ids), (std::vector<std::string>{"", "", "\xE8\x81\xAA", "\n", ""}));
  ids.resize(2);
  EXPECT_EQ(join(deltas(*tokenizer, ids)), kReplacement);
}

}  // namespace
}  // namespace encore
