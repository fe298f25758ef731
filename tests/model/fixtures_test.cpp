// Files that other programs wrote (make_fixtures.py), read to the byte.
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "model/model_files.h"
#include "test_files.h"

namespace encore {
namespace {

const std::string kData = ENCORE_MODEL_TEST_DATA "/";
constexpr std::string_view kDigits = "0123456789abcdef";

std::string hex(const std::byte* bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += kDigits[static_cast<size_t>(bytes[i]) >> 4];
    text += kDigits[static_cast<size_t>(bytes[i]) & 15];
  }
  return text;
}

void expect_weights(const ModelFiles& model, const std::string& fixture) {
  const auto all = nlohmann::json::parse(read_file(kData + "expected.json"));
  const nlohmann::json& expected = all[fixture];
  ASSERT_EQ(model.weights->weights().size(), expected.size());
  for (const auto& [name, entry] : expected.items()) {
    SCOPED_TRACE(name);
    const int64_t found = find_weight(*model.weights, name);
    ASSERT_GE(found, 0);
    const auto index = static_cast<size_t>(found);
    const WeightInfo& info = model.weights->weights()[index];
    EXPECT_EQ(dtype_name(info.dtype), entry["dtype"].get<std::string>());
    EXPECT_EQ(info.shape, entry["shape"].get<std::vector<int64_t>>());
    const std::byte* data = model.weights->map(index);
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(hex(data, 8), entry["first"].get<std::string>());
    EXPECT_EQ(hex(data + info.bytes - 8, 8), entry["last"].get<std::string>());
    std::array<std::byte, 8> last;
    ASSERT_TRUE(model.weights->read(index, info.bytes - 8, last).ok());
    EXPECT_EQ(hex(last.data(), 8), entry["last"].get<std::string>());
    EXPECT_FALSE(model.weights->read(index, info.bytes - 7, last).ok());
  }
}

TEST(FixtureTest, ShardedQwen3) {
  auto model = open_model(kData + "tiny_qwen3");
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  const ModelSpec& spec = model->spec;
  EXPECT_EQ(spec.architecture, "qwen3");
  EXPECT_EQ(spec.vocab_size, 96);
  EXPECT_EQ(spec.head_dim, 16);  // not hidden_size / num_heads = 8
  EXPECT_EQ(spec.q_size(), 64);
  EXPECT_TRUE(spec.tied_embeddings);
  EXPECT_TRUE(spec.qk_norm);
  EXPECT_FALSE(spec.qkv_bias);
  EXPECT_EQ(spec.rope.inv_freq.size(), 8U);
  EXPECT_EQ(model->generation.eos_ids, (std::vector<int32_t>{2, 5}));
  EXPECT_EQ(model->generation.temperature, 0.6);
  EXPECT_EQ(model->generation.top_k, 20);
  EXPECT_EQ(model->generation.top_p, 0.95);
  EXPECT_EQ(model->generation.do_sample, true);
  EXPECT_EQ(model->generation.repetition_penalty, std::nullopt);
  expect_weights(*model, "tiny_qwen3");
}

TEST(FixtureTest, SingleFileLlamaWithBiases) {
  auto model = open_model(kData + "tiny_llama");
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_TRUE(model->spec.qkv_bias);
  EXPECT_TRUE(model->spec.attention_output_bias);
  EXPECT_TRUE(model->spec.mlp_bias);
  EXPECT_FALSE(model->spec.tied_embeddings);
  EXPECT_FLOAT_EQ(model->spec.rms_norm_eps, 1e-5F);
  EXPECT_EQ(model->generation.eos_ids, std::vector<int32_t>{3});
  expect_weights(*model, "tiny_llama");
}

TEST(FixtureTest, GgufOfEveryType) {
  auto model = open_model(kData + "tiny.gguf");
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  const ModelSpec& spec = model->spec;
  EXPECT_EQ(spec.name, "tiny");
  EXPECT_EQ(spec.num_heads, 2);
  EXPECT_EQ(spec.num_kv_heads, 1);
  EXPECT_EQ(spec.head_dim, 32);
  EXPECT_EQ(spec.max_context, 2048);
  EXPECT_EQ(spec.rope.style, RopeStyle::kAdjacentPairs);
  EXPECT_FALSE(spec.tied_embeddings);
  EXPECT_EQ(model->text.chat_template, "{{ messages[0].content }}");
  EXPECT_EQ(model->text.bos_token, "t1");
  EXPECT_EQ(model->text.eos_token, "t7");
  EXPECT_EQ(model->generation.eos_ids, std::vector<int32_t>{7});
  std::set<DType> types;
  for (const WeightInfo& info : model->weights->weights()) types.insert(info.dtype);
  EXPECT_EQ(types.size(), 9U);
  expect_weights(*model, "tiny.gguf");
}

}  // namespace
}  // namespace encore
