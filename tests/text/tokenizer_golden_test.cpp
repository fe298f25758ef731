// Whole tokenizers against hashes of what the tokenizers library gives (make_tokenizer_goldens.py).
#include <gtest/gtest.h>

#include <cstring>

#include "test_lines.h"
#include "test_tokenizers.h"
#include "text/byte_alphabet.h"
#include "text/detokenizer.h"
#include "text/utf8.h"

namespace encore {
namespace {

class TokenizerGoldenTest : public testing::TestWithParam<const char*> {};

void add_to_hash(const void* data, size_t size, uint32_t& hash) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < size; ++i) hash = (hash ^ bytes[i]) * 16777619u;
}

void add_to_hash(const std::vector<int32_t>& ids, uint32_t& hash) {
  const auto count = static_cast<uint32_t>(ids.size());
  add_to_hash(&count, sizeof count, hash);
  add_to_hash(ids.data(), ids.size() * sizeof(int32_t), hash);
}

std::vector<int32_t> encode(const Tokenizer& tokenizer, const std::string& text, bool special) {
  auto ids = tokenizer.encode(text, {special, special});
  EXPECT_TRUE(ids.ok()) << ids.status().to_string();
  return ids.ok() ? std::move(ids).value() : std::vector<int32_t>();
}

TEST_P(TokenizerGoldenTest, IdsEqualTheTokenizersLibrary) {
  ENCORE_LOAD_OR_SKIP(tokenizer, GetParam());
  const std::string golden = read_golden(std::string(GetParam()) + ".hashes");
  ASSERT_EQ(golden.size(), kNumTestLines * sizeof(uint32_t));
  const std::vector<std::string> lines = make_test_lines();
  size_t different = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    uint32_t expected = 0;
    std::memcpy(&expected, golden.data() + i * sizeof expected, sizeof expected);
    uint32_t hash = 2166136261u;
    add_to_hash(encode(*tokenizer, lines[i], true), hash);
    add_to_hash(encode(*tokenizer, lines[i], false), hash);
    if (hash == expected) continue;
    if (++different <= 3) ADD_FAILURE() << "line " << i << ": " << testing::PrintToString(lines[i]);
  }
  EXPECT_EQ(different, 0u);
}

// What AutoTokenizer of transformers 5.24.0 gives for the files as they are. DeepSeek-V3's
// configuration says add_bos_token; its post-processor adds none.
TEST(TransformersGoldenTest, SpecialTokensAroundATextAreThePostProcessors) {
  const std::pair<const char*, std::vector<int32_t>> expected[] = {
      {"deepseek_v3", {19923}},     {"gemma3", {2, 9259}}, {"llama2", {1, 22557}},
      {"llama3_1", {128000, 9906}}, {"qwen3", {9707}},
  };
  for (const auto& [name, ids] : expected) {
    ENCORE_LOAD_OR_SKIP(tokenizer, name);
    EXPECT_EQ(tokenizer->encode("Hello").value(), ids) << name;
  }
}

// The text as an exact tokenizer could give it back: without the bytes that the vocabulary lacks
// (SmolLM2 has no token for some control characters), spaces spelled as spaces.
std::string expressible(const Tokenizer& tokenizer, const std::string& line) {
  const std::string text = replace_malformed_utf8(line);
  if (!tokenizer.parts().decoder.byte_level) return replace_all(text, "\xE2\x96\x81", " ");
  std::string kept;
  for (const char c : text) {
    std::string spelled;
    append_utf8(kByteAlphabet[static_cast<uint8_t>(c)], spelled);
    if (tokenizer.token_to_id(spelled)) kept.push_back(c);
  }
  return replace_malformed_utf8(kept);
}

TEST_P(TokenizerGoldenTest, DecodingGivesTheTextBack) {
  ENCORE_LOAD_OR_SKIP(tokenizer, GetParam());
  // Up to normalization, which does not reach across added tokens.
  const auto nfc = [](const std::string& text) {
    TextBudget budget(text.size());
    return Normalizer({UnicodeForm::kNfc}).apply(text, budget).value();
  };
  for (const std::string& line : make_test_lines()) {
    const std::string decoded =
        tokenizer->decode(encode(*tokenizer, line, false), {.skip_special = false});
    const std::string expected = expressible(*tokenizer, line);
    if (tokenizer->parts().normalizer.empty()) {
      ASSERT_EQ(decoded, expected);
    } else {
      ASSERT_EQ(nfc(decoded), nfc(expected));
    }
  }
}

TEST_P(TokenizerGoldenTest, StreamingEqualsBatchDecoding) {
  ENCORE_LOAD_OR_SKIP(tokenizer, GetParam());
  for (const bool skip_special : {false, true}) {
    const DecodeOptions options{.skip_special = skip_special};
    StreamingDetokenizer detokenizer(*tokenizer, options);
    for (const std::string& line : make_test_lines()) {
      std::vector<int32_t> ids = encode(*tokenizer, line, true);
      if (!ids.empty() && ids.size() % 3 == 0) ids.pop_back();  // may cut a character
      std::string joined;
      for (const int32_t id : ids) {
        const std::string delta = detokenizer.push(id);
        ASSERT_TRUE(is_valid_utf8(delta));
        joined += delta;
      }
      joined += detokenizer.finish();
      ASSERT_EQ(joined, tokenizer->decode(ids, options));
    }
  }
}

TEST_P(TokenizerGoldenTest, TextNeverBecomesAControlTokenUnlessAsked) {
  ENCORE_LOAD_OR_SKIP(tokenizer, GetParam());
  for (const AddedToken& token : tokenizer->parts().added.tokens()) {
    if (!token.is_control()) continue;
    for (const int32_t id : encode(*tokenizer, "x" + token.text + "\ny", false)) {
      ASSERT_FALSE(tokenizer->is_control(id)) << token.text;
    }
  }
}

TEST_P(TokenizerGoldenTest, LongRunsTakeLinearTime) {
  ENCORE_LOAD_OR_SKIP(tokenizer, GetParam());
  for (const char* unit : {"a", " ", "\n", "<|im_start", "\xCC\x81"}) {
    std::string text;
    while (text.size() < (size_t{1} << 20)) text += unit;
    const auto ids = tokenizer->encode(text);  // minutes if any stage were quadratic
    ASSERT_TRUE(ids.ok()) << ids.status().to_string();
    EXPECT_EQ(tokenizer->decode(*ids).size(), text.size());
  }
}

TEST_P(TokenizerGoldenTest, NoTextHasFewerIdsThanItsLengthSays) {
  ENCORE_LOAD_OR_SKIP(tokenizer, GetParam());
  EXPECT_GT(tokenizer->least_ids(1 << 20), 1000);
  for (const char* unit : {"a", " ", "\n", "=", "<|im_start", "\xCC\x81", "\xE2\x84\xAA",
                           "\xE1\xBE\xBE\xCC\x88\xCC\x81", "\xF0\x9F\x98\x80"}) {
    std::string text;
    while (text.size() < 10'000) text += unit;
    const auto ids = tokenizer->encode(text, {.add_special = false});
    ASSERT_TRUE(ids.ok()) << ids.status().to_string();
    EXPECT_LE(tokenizer->least_ids(std::ssize(text)), std::ssize(*ids)) << unit;
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, TokenizerGoldenTest,
                         testing::Values("deepseek_v3", "gemma3", "llama2", "llama3_1", "qwen3",
                                         "smollm2"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace encore
