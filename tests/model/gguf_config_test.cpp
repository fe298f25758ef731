#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/model_files.h"
#include "test_files.h"

namespace encore {
namespace {

using ::testing::HasSubstr;

Result<ModelFiles> open(const GgufWriter& writer) {
  const TempFolder folder;  // the mapping outlives the name
  return open_model(folder.write("tiny.gguf", writer.finish()));
}

std::string refusal(const GgufWriter& writer) {
  const auto model = open(writer);
  return model.ok() ? "" : model.status().to_string();
}

TinyModel tiny(const std::string& architecture) {
  TinyModel model;
  model.architecture = architecture;
  model.qkv_bias = architecture == "qwen2";
  model.qk_norm = architecture == "qwen3";
  return model;
}

TEST(GgufConfigTest, RowOrderOfQAndKFollowsTheArchitecture) {
  for (const auto& [architecture, style] :
       {std::pair("llama", RopeStyle::kAdjacentPairs), std::pair("qwen2", RopeStyle::kHalfSplit),
        std::pair("qwen3", RopeStyle::kHalfSplit)}) {
    const auto model = open(tiny_gguf(tiny(architecture)));
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    EXPECT_EQ(model->spec.rope.style, style) << architecture;
    EXPECT_EQ(model->spec.qkv_bias, model->spec.architecture == "qwen2");
    EXPECT_EQ(model->spec.qk_norm, model->spec.architecture == "qwen3");
    EXPECT_EQ(model->weights->weights().size(), tiny_tensors(tiny(architecture)).size());
  }
}

TEST(GgufConfigTest, NoOutputMatrixMeansTiedToTheEmbedding) {
  TinyModel m = tiny("llama");
  m.head = false;
  const auto model = open(tiny_gguf(m));
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_TRUE(model->spec.tied_embeddings);
  EXPECT_EQ(find_weight(*model->weights, "head.weight"), -1);
}

TEST(GgufConfigTest, LlamaMayHaveBiases) {
  TinyModel m = tiny("llama");
  m.qkv_bias = true;
  const auto model = open(tiny_gguf(m));
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_TRUE(model->spec.qkv_bias);
  EXPECT_GE(find_weight(*model->weights, "layers.1.v.bias"), 0);
}

TEST(GgufConfigTest, UnsupportedModelsAreRefused) {
  EXPECT_THAT(refusal(tiny_gguf(tiny("mamba"))),
              HasSubstr("general.architecture 'mamba'; supported: llama, qwen2, qwen3"));
  EXPECT_THAT(refusal(tiny_gguf(tiny("llama")).u32("llama.expert_count", 8)),
              HasSubstr("mixture of 8 experts"));
  EXPECT_THAT(refusal(tiny_gguf(tiny("llama")).u32("llama.attention.sliding_window", 128)),
              HasSubstr("sliding window of 128 tokens in force in a context of 256"));
  EXPECT_EQ(refusal(tiny_gguf(tiny("llama")).u32("llama.attention.sliding_window", 256)), "");
  EXPECT_THAT(refusal(tiny_gguf(tiny("llama")).u32("llama.rope.dimension_count", 8)),
              HasSubstr("'llama.rope.dimension_count' is 8; supported: 16"));
  EXPECT_THAT(refusal(tiny_gguf(tiny("llama")).f32("llama.attention.scale", 0.1F)),
              HasSubstr("llama.attention.scale"));
  EXPECT_THAT(refusal(tiny_gguf(tiny("llama")).text("llama.rope.scaling.type", "longrope")),
              HasSubstr("RoPE type 'longrope'"));
}

TEST(GgufConfigTest, MissingOrMistypedKeysAreNamed) {
  EXPECT_THAT(refusal(GgufWriter().text("general.architecture", "llama")),
              HasSubstr("key 'llama.embedding_length' is missing"));
  EXPECT_THAT(refusal(GgufWriter().u32("general.architecture", 1)),
              HasSubstr("'general.architecture' must be a string"));
  EXPECT_THAT(
      refusal(
          GgufWriter().text("general.architecture", "llama").text("llama.embedding_length", "")),
      HasSubstr("'llama.embedding_length' must be one integer"));
}

TEST(GgufConfigTest, AbsurdSizesAreRefused) {
  for (const auto& [member, name] :
       {std::pair(&TinyModel::layers, "number of layers"), std::pair(&TinyModel::inner, "interm"),
        std::pair(&TinyModel::context, "context length")}) {
    for (const int64_t bad : {int64_t{0}, int64_t{4000000000}}) {
      TinyModel m = tiny("llama");
      GgufWriter keys;
      m.*member = bad;
      keys.text("general.architecture", "llama")
          .u32("llama.block_count", static_cast<uint32_t>(m.layers))
          .u32("llama.context_length", static_cast<uint32_t>(m.context))
          .u32("llama.embedding_length", 64)
          .u32("llama.feed_forward_length", static_cast<uint32_t>(m.inner))
          .u32("llama.attention.head_count", 4)
          .u32("llama.vocab_size", 48)
          .f32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
      EXPECT_THAT(refusal(keys), HasSubstr(name)) << bad;
    }
  }
}

TEST(GgufConfigTest, HeadsThatDoNotDivideAreRefused) {
  TinyModel m = tiny("llama");
  m.kv_heads = 3;
  EXPECT_THAT(refusal(tiny_gguf(m)), HasSubstr("4 heads do not divide evenly among 3"));
}

// Tables of transformers for the same parameters; see rope_table_test.cpp.
std::vector<float> reference_table(const std::string& name) {
  for (const auto& entry :
       nlohmann::json::parse(read_file(ENCORE_MODEL_TEST_DATA "/rope_tables.json"))) {
    if (entry["name"] == name) return entry["inv_freq"].get<std::vector<float>>();
  }
  return {};
}

void expect_table(const GgufWriter& writer, const std::string& name, float attention_scale = 1.0F) {
  SCOPED_TRACE(name);
  const auto model = open(writer);
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  const std::vector<float> expected = reference_table(name);
  ASSERT_EQ(model->spec.rope.inv_freq.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(model->spec.rope.inv_freq[i], expected[i], 3e-6F * expected[i]) << i;
  }
  EXPECT_NEAR(model->spec.rope.attention_scale, attention_scale, 1e-6);
}

TinyModel with_head_dim(int64_t head_dim) {
  TinyModel m = tiny("llama");
  m.head_dim = head_dim;
  return m;
}

TEST(GgufConfigTest, RopeScalingEqualsTransformers) {
  expect_table(tiny_gguf(with_head_dim(64)), "default");
  expect_table(tiny_gguf(with_head_dim(128)).f32("llama.rope.freq_base", 500000.0F),
               "default_theta");
  expect_table(tiny_gguf(with_head_dim(64))
                   .text("llama.rope.scaling.type", "linear")
                   .f32("llama.rope.scaling.factor", 4.0F),
               "linear");
  expect_table(tiny_gguf(with_head_dim(64)).f32("llama.rope.scale_linear", 4.0F), "linear");
  expect_table(tiny_gguf(with_head_dim(128))
                   .f32("llama.rope.freq_base", 1e6F)
                   .text("llama.rope.scaling.type", "yarn")
                   .f32("llama.rope.scaling.factor", 4.0F)
                   .u32("llama.rope.scaling.original_context_length", 32768),
               "yarn", 1.13862944F);
}

TEST(GgufConfigTest, RopeFactorTensorIsApplied) {
  const std::vector<float> scaled = reference_table("llama3");
  const std::vector<float> plain = reference_table("default_theta");
  ASSERT_EQ(scaled.size(), 64U);
  std::string factors;
  for (size_t i = 0; i < scaled.size(); ++i) factors += bytes_of(plain[i] / scaled[i]);
  GgufWriter writer = tiny_gguf(with_head_dim(128));
  writer.f32("llama.rope.freq_base", 500000.0F).tensor("rope_freqs.weight", 0, {64}, factors);
  expect_table(writer, "llama3");
  writer = tiny_gguf(with_head_dim(64));
  writer.tensor("rope_freqs.weight", 0, {64}, factors);
  EXPECT_THAT(refusal(writer), HasSubstr("'rope_freqs.weight' has type f32 and shape [64]; "
                                         "expected f32 and [32]"));
}

TEST(GgufConfigTest, SeveralEndTokens) {
  const auto model = open(tiny_gguf(tiny("llama"))
                              .u32("tokenizer.ggml.eot_token_id", 5)
                              .u32("tokenizer.ggml.eom_token_id", 4000));
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_EQ(model->generation.eos_ids, (std::vector<int32_t>{2, 5}));
  EXPECT_THAT(model->notes, ::testing::ElementsAre(HasSubstr("end token 4000 is ignored")));
  EXPECT_EQ(model->text.eos_token, "t2");
  EXPECT_EQ(model->text.bos_token, "t1");
}

}  // namespace
}  // namespace encore
