#include "model/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "test_files.h"

namespace encore {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

Json config_of(const std::string& architecture, const Json& changes = Json::object()) {
  TinyModel model;
  model.architecture = architecture;
  model.context = 8192;
  Json config = tiny_config(model);
  config.update(changes);
  return config;
}

std::string refusal(const Json& config) {
  const auto result = read_hf_config(config.dump(), "config.json");
  return result.ok() ? "" : result.status().to_string();
}

ModelSpec accept(const Json& config) {
  auto result = read_hf_config(config.dump(), "config.json");
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  return result.ok() ? result->spec : ModelSpec();
}

TEST(HfConfigTest, HeadDimComesFromTheConfigurationFirst) {
  EXPECT_EQ(accept(config_of("llama", {{"head_dim", 32}})).head_dim, 32);
  EXPECT_EQ(accept(config_of("llama", {{"head_dim", nullptr}})).head_dim, 16);
  Json config = config_of("qwen3");
  config.erase("head_dim");
  EXPECT_EQ(accept(config).head_dim, 128);  // the default of Qwen3Config
}

TEST(HfConfigTest, BiasesFollowTheArchitecture) {
  const ModelSpec qwen2 = accept(config_of("qwen2"));
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.attention_output_bias);
  const ModelSpec llama =
      accept(config_of("llama", {{"attention_bias", true}, {"mlp_bias", true}}));
  EXPECT_TRUE(llama.qkv_bias && llama.attention_output_bias && llama.mlp_bias);
  const ModelSpec mistral =
      accept(config_of("mistral", {{"sliding_window", nullptr}, {"attention_bias", true}}));
  EXPECT_FALSE(mistral.qkv_bias);
  const ModelSpec qwen3 = accept(config_of("qwen3"));
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_FALSE(qwen3.qkv_bias);
}

TEST(HfConfigTest, SlidingWindowInForceIsRefusedWithTheNumbers) {
  const std::string text = refusal(config_of("mistral", {{"sliding_window", 4096}}));
  EXPECT_THAT(text, HasSubstr("unimplemented"));
  EXPECT_THAT(text, HasSubstr("sliding window of 4096 tokens in force in a context of 8192"));
  // Absent means 4096 to transformers.
  EXPECT_THAT(refusal(config_of("mistral")), HasSubstr("4096 tokens"));
  const Json qwen = {{"use_sliding_window", true}, {"sliding_window", 512}};
  EXPECT_EQ(refusal(config_of("qwen2", qwen)), "");  // max_window_layers is 28: no layer uses it
  Json used = qwen;
  used["max_window_layers"] = 1;
  EXPECT_THAT(refusal(config_of("qwen2", used)), HasSubstr("512 tokens"));
  EXPECT_THAT(refusal(config_of("qwen3", used)), HasSubstr("512 tokens"));
  const Json layers = {{"use_sliding_window", true},
                       {"sliding_window", 512},
                       {"layer_types", {"full_attention", "sliding_attention"}}};
  EXPECT_THAT(refusal(config_of("qwen3", layers)), HasSubstr("512 tokens"));
}

TEST(HfConfigTest, SlidingWindowNotInForceIsAccepted) {
  accept(config_of("mistral", {{"sliding_window", nullptr}}));
  accept(config_of("mistral", {{"sliding_window", 8192}}));
  accept(config_of(
      "qwen2", {{"use_sliding_window", false}, {"sliding_window", 512}, {"max_window_layers", 1}}));
  accept(config_of("llama", {{"sliding_window", 16}}));  // LlamaConfig has no such key
}

TEST(HfConfigTest, UnknownThingsAreRefusedByName) {
  EXPECT_THAT(refusal(config_of("gpt2")), HasSubstr("model_type 'gpt2'; supported: llama"));
  EXPECT_THAT(refusal(config_of("llama", {{"architectures", {"LlamaForSequenceClassification"}}})),
              HasSubstr("architecture 'LlamaForSequenceClassification'"));
  EXPECT_THAT(refusal(config_of("llama", {{"hidden_act", "gelu"}})),
              HasSubstr("hidden_act 'gelu'"));
  EXPECT_THAT(refusal(config_of("llama", {{"quantization_config", {{"quant_method", "gptq"}}}})),
              HasSubstr("quantised by 'gptq'"));
  EXPECT_THAT(refusal(config_of("llama", {{"rope_scaling", {{"type", "foo"}, {"factor", 2.0}}}})),
              HasSubstr("RoPE type 'foo'"));
  EXPECT_THAT(refusal(config_of("llama", {{"rope_scaling", {{"rope_type", "longrope"}}}})),
              HasSubstr("RoPE type 'longrope'"));
  EXPECT_THAT(refusal(config_of("llama", {{"partial_rotary_factor", 0.5}})),
              HasSubstr("partial_rotary_factor 0.5"));
  EXPECT_THAT(refusal(config_of("llama", {{"rope_parameters", {{"partial_rotary_factor", 0.25}}}})),
              HasSubstr("partial_rotary_factor 0.25"));
}

TEST(HfConfigTest, WrongSizesAreRefusedWithTheirRange) {
  for (const char* key :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings"}) {
    for (const Json& bad : {Json(0), Json(-1), Json(int64_t{1} << 62), Json(UINT64_MAX), Json("8"),
                            Json(1.5), Json::array()}) {
      EXPECT_THAT(refusal(config_of("llama", {{key, bad}})), HasSubstr("invalid_argument"))
          << key << " = " << bad;
    }
  }
  Json config = config_of("llama");
  config.erase("hidden_size");
  EXPECT_THAT(refusal(config), HasSubstr("hidden_size is missing"));
  EXPECT_THAT(refusal(config_of("llama", {{"num_key_value_heads", 3}})),
              HasSubstr("4 heads do not divide evenly among 3"));
  EXPECT_THAT(refusal(config_of("llama", {{"head_dim", 15}})), HasSubstr("need an even one"));
  EXPECT_THAT(refusal(config_of("llama", {{"head_dim", nullptr}, {"num_attention_heads", 6}})),
              HasSubstr("hidden_size 64 does not divide evenly among 6"));
  EXPECT_THAT(refusal(config_of("llama", {{"rms_norm_eps", 0.0}})), HasSubstr("rms_norm_eps is 0"));
  EXPECT_THAT(refusal(config_of("llama", {{"rope_scaling", {{"type", "linear"}}}})),
              HasSubstr("factor is missing"));
  EXPECT_THAT(refusal(config_of("llama", {{"rope_scaling", "linear"}})), HasSubstr("an object"));
}

TEST(HfConfigTest, DynamicScalingKeepsToTheOriginalContext) {
  const Json config =
      config_of("llama", {{"rope_scaling", {{"type", "dynamic"}, {"factor", 4.0}}}});
  const auto result = read_hf_config(config.dump(), "config.json");
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_EQ(result->spec.max_context, 8192);
  EXPECT_THAT(result->notes, ::testing::ElementsAre(HasSubstr("8192 tokens")));
}

TEST(HfConfigTest, YarnContextIsDerivedFromTheOriginal) {
  const Json yarn = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 8192}};
  EXPECT_EQ(accept(config_of("qwen2", {{"rope_scaling", yarn}})).max_context, 32768);
}

TEST(HfConfigTest, SeveralEndTokens) {
  const Json config = config_of("llama", {{"eos_token_id", {3, 4}}});
  const auto result = read_hf_config(config.dump(), "config.json");
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->eos_ids, (std::vector<int64_t>{3, 4}));
}

TEST(HfConfigTest, DamagedJsonIsAnError) {
  const std::string text = config_of("llama").dump();
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(read_hf_config(text.substr(0, size), "config.json").ok()) << size;
  }
}

}  // namespace
}  // namespace encore
