#include "model/model_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "test_files.h"

namespace encore {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string weight_data(const ModelFiles& model, const std::string& name) {
  const int64_t found = find_weight(*model.weights, name);
  if (found < 0) return "no such weight";
  const auto index = static_cast<size_t>(found);
  std::string data(static_cast<size_t>(model.weights->weights()[index].bytes), '\0');
  const Status status = model.weights->read(index, 0, std::as_writable_bytes(std::span(data)));
  return status.ok() ? data : status.to_string();
}

std::string refusal(const std::string& path) {
  const auto model = open_model(path);
  return model.ok() ? "" : model.status().to_string();
}

TEST(ModelFilesTest, SafetensorsAndGgufOfOneModelHoldTheSame) {
  const TempFolder folder;
  const TinyModel tiny;
  write_tiny_hf(folder, tiny, tiny_config(tiny), 3);
  const TempFolder other;
  auto hf = open_model(folder.path());
  auto gguf = open_model(other.write("m.gguf", tiny_gguf(tiny).finish()));
  ASSERT_TRUE(hf.ok()) << hf.status().to_string();
  ASSERT_TRUE(gguf.ok()) << gguf.status().to_string();
  ASSERT_EQ(hf->weights->weights().size(), gguf->weights->weights().size());
  for (const WeightInfo& info : hf->weights->weights()) {
    EXPECT_EQ(weight_data(*hf, info.name), weight_data(*gguf, info.name)) << info.name;
  }
  EXPECT_EQ(hf->spec.rope.inv_freq, gguf->spec.rope.inv_freq);
  EXPECT_EQ(hf->spec.max_context, gguf->spec.max_context);
}

TEST(ModelFilesTest, ReleasedWeightsReadTheSameAgain) {
  const TempFolder folder;
  const TinyModel tiny;
  auto model = open_model(folder.write("m.gguf", tiny_gguf(tiny).finish()));
  ASSERT_TRUE(model.ok());
  const std::string before = weight_data(*model, "layers.1.gate.weight");
  const auto index = static_cast<size_t>(find_weight(*model->weights, "layers.1.gate.weight"));
  model->weights->release(index);
  const std::byte* mapped = model->weights->map(index);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(mapped), before.size()), before);
  model->weights->release(10000);  // ignored
  EXPECT_EQ(model->weights->map(10000), nullptr);
}

TEST(ModelFilesTest, MisalignedWeightsAreReadNotMapped) {
  const TempFolder folder;
  TinyModel tiny;
  write_tiny_hf(folder, tiny, tiny_config(tiny));
  // An odd header length puts every tensor on an odd address.
  const std::string file = read_file(folder.path("model.safetensors"));
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  folder.write("model.safetensors",
               bytes_of(length + 1) + file.substr(8, length) + " " + file.substr(8 + length));
  auto model = open_model(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_EQ(model->weights->map(0), nullptr);
  EXPECT_EQ(weight_data(*model, "embed.weight"), tiny_tensors(tiny).front().data);
}

// Fault L1: the tie flag decides.
TEST(ModelFilesTest, TiedWithoutHeadIsFine) {
  const TempFolder folder;
  TinyModel tiny;
  tiny.head = false;
  write_tiny_hf(folder, tiny, tiny_config(tiny));
  auto model = open_model(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_TRUE(model->spec.tied_embeddings);
}

TEST(ModelFilesTest, TiedWithASpareHeadIgnoresItWithANote) {
  const TempFolder folder;
  const TinyModel tiny;
  nlohmann::json config = tiny_config(tiny);
  config["tie_word_embeddings"] = true;
  write_tiny_hf(folder, tiny, config);
  auto model = open_model(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_TRUE(model->spec.tied_embeddings);
  EXPECT_EQ(find_weight(*model->weights, "head.weight"), -1);
  EXPECT_THAT(model->notes, Contains(HasSubstr("tensor 'lm_head.weight' is ignored")));
}

TEST(ModelFilesTest, UntiedWithoutHeadIsAnError) {
  const TempFolder folder;
  TinyModel tiny;
  tiny.head = false;
  nlohmann::json config = tiny_config(tiny);
  config["tie_word_embeddings"] = false;
  write_tiny_hf(folder, tiny, config);
  EXPECT_THAT(refusal(folder.path()),
              HasSubstr("not_found: tensor 'lm_head.weight' of shape [48, 64] is missing"));
}

// Fault L2: incomplete or contradictory directories.
TEST(ModelFilesTest, MissingShardIsNamed) {
  const TempFolder folder;
  const TinyModel tiny;
  write_tiny_hf(folder, tiny, tiny_config(tiny), 3);
  std::filesystem::remove(folder.path("model-00002-of-00003.safetensors"));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("model-00002-of-00003.safetensors"));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("is missing"));
}

TEST(ModelFilesTest, TensorMissingFromItsShardIsNamed) {
  const TempFolder folder;
  const TinyModel tiny;
  write_tiny_hf(folder, tiny, tiny_config(tiny), 3);
  auto index = nlohmann::json::parse(read_file(folder.path("model.safetensors.index.json")));
  index["weight_map"]["model.norm.weight"] =
      index["weight_map"]["model.norm.weight"] == "model-00001-of-00003.safetensors"
          ? "model-00002-of-00003.safetensors"
          : "model-00001-of-00003.safetensors";
  folder.write("model.safetensors.index.json", index.dump());
  EXPECT_THAT(refusal(folder.path()), HasSubstr("tensor 'model.norm.weight' is missing from file"));
}

TEST(ModelFilesTest, StrayFilesAreIgnoredWithANote) {
  const TempFolder folder;
  const TinyModel tiny;
  write_tiny_hf(folder, tiny, tiny_config(tiny), 3);
  const std::string embedding(48 * 64 * 4, 'z');
  folder.write(
      "stray.safetensors",
      SafetensorsWriter().tensor("model.embed_tokens.weight", "F32", {48, 64}, embedding).finish());
  folder.write("broken.safetensors", "not a tensor file");
  auto model = open_model(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_EQ(weight_data(*model, "embed.weight"), tiny_tensors(tiny).front().data);
  EXPECT_THAT(model->notes, Contains(HasSubstr("stray.safetensors' is ignored")));
  EXPECT_THAT(model->notes, Contains(HasSubstr("broken.safetensors' is ignored")));
}

TEST(ModelFilesTest, TensorsTheIndexDoesNotListAreIgnored) {
  const TempFolder folder;
  const TinyModel tiny;
  write_tiny_hf(folder, tiny, tiny_config(tiny), 3);
  auto index = nlohmann::json::parse(read_file(folder.path("model.safetensors.index.json")));
  index["weight_map"].erase("model.norm.weight");
  folder.write("model.safetensors.index.json", index.dump());
  EXPECT_THAT(refusal(folder.path()), HasSubstr("tensor 'model.norm.weight' of shape [64]"));
}

TEST(ModelFilesTest, IndexCannotLeaveTheDirectory) {
  const TempFolder folder;
  const TinyModel tiny;
  write_tiny_hf(folder, tiny, tiny_config(tiny), 3);
  for (const char* name : {"../x.safetensors", "/etc/passwd", "..", ""}) {
    const nlohmann::json index = {{"weight_map", {{"model.norm.weight", name}}}};
    folder.write("model.safetensors.index.json", index.dump());
    EXPECT_THAT(refusal(folder.path()), HasSubstr("expected a file of this directory")) << name;
  }
}

TEST(ModelFilesTest, WrongShapeNamesBoth) {
  const TempFolder folder;
  const TinyModel tiny;
  nlohmann::json config = tiny_config(tiny);
  config["intermediate_size"] = 128;
  write_tiny_hf(folder, tiny, config);
  EXPECT_THAT(refusal(folder.path()), HasSubstr("data_loss: tensor 'model.layers.0.mlp.gate_proj."
                                                "weight' in file"));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("has shape [96, 64]; expected [128, 64]"));
}

TEST(ModelFilesTest, UnsupportedTypesAreNamed) {
  const TempFolder folder;
  const TinyModel tiny;
  folder.write("config.json", tiny_config(tiny).dump());
  SafetensorsWriter writer;
  for (const TinyTensor& tensor : tiny_tensors(tiny)) {
    const bool bad = tensor.gguf == "blk.1.attn_q.weight";
    writer.tensor(tensor.hugging_face, bad ? "I32" : "F32", tensor.shape, tensor.data);
  }
  folder.write("model.safetensors", writer.finish());
  EXPECT_THAT(refusal(folder.path()), HasSubstr("has type 'I32'; supported: f32, f16, bf16"));
}

TEST(ModelFilesTest, QuantisedNormIsRefused) {
  const TempFolder folder;
  const TinyModel tiny;
  GgufWriter writer;
  for (const TinyTensor& tensor : tiny_tensors(tiny)) {
    const bool norm = tensor.gguf == "output_norm.weight";
    writer.tensor(tensor.gguf, norm ? 8 : 0, {tensor.shape.rbegin(), tensor.shape.rend()},
                  norm ? std::string(2 * 34, 'q') : tensor.data);
  }
  writer.text("general.architecture", "llama")
      .u32("llama.block_count", 2)
      .u32("llama.context_length", 256)
      .u32("llama.embedding_length", 64)
      .u32("llama.feed_forward_length", 96)
      .u32("llama.attention.head_count", 4)
      .u32("llama.attention.head_count_kv", 2)
      .f32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  EXPECT_THAT(refusal(folder.write("m.gguf", writer.finish())),
              HasSubstr("has type q8_0; norms and biases must be f32, f16 or bf16"));
}

TEST(ModelFilesTest, LayerTensorsWithoutAPlaceAreRefused) {
  const TempFolder folder;
  TinyModel tiny;
  tiny.qk_norm = true;  // a llama has none
  write_tiny_hf(folder, tiny, tiny_config(tiny));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("has no place in a 'llama' model"));
}

TEST(ModelFilesTest, OtherTensorsAreNoted) {
  const TempFolder folder;
  const TinyModel tiny;
  GgufWriter writer = tiny_gguf(tiny);
  writer.tensor("vision.proj", 0, {8}, std::string(32, 'v'))
      .tensor("blk.2.attn_q.weight", 0, {8}, std::string(32, 'v'));
  auto model = open_model(folder.write("m.gguf", writer.finish()));
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_THAT(model->notes, ElementsAre(HasSubstr("2 tensors are not used")));
}

TEST(ModelFilesTest, HuggingFaceTextAssets) {
  const TempFolder folder;
  const TinyModel tiny;
  write_tiny_hf(folder, tiny, tiny_config(tiny));
  folder.write("tokenizer.json", "{\"model\":{}}");
  folder.write("tokenizer_config.json",
               R"({"bos_token":{"content":"<s>","lstrip":false},"eos_token":"</s>",
                   "chat_template":[{"name":"tool_use","template":"T"},
                                    {"name":"default","template":"D"}]})");
  folder.write("generation_config.json",
               R"({"eos_token_id":[2,7,2,4000],"top_k":5,"repetition_penalty":1.1})");
  auto model = open_model(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_EQ(model->text.tokenizer_json, "{\"model\":{}}");
  EXPECT_EQ(model->text.bos_token, "<s>");
  EXPECT_EQ(model->text.eos_token, "</s>");
  EXPECT_EQ(model->text.chat_template, "D");
  EXPECT_EQ(model->generation.eos_ids, (std::vector<int32_t>{2, 7}));
  EXPECT_EQ(model->generation.top_k, 5);
  EXPECT_EQ(model->generation.repetition_penalty, 1.1);
  EXPECT_THAT(model->notes, ElementsAre(HasSubstr("end token 4000 is ignored")));
  folder.write("chat_template.jinja", "J");
  EXPECT_EQ(open_model(folder.path())->text.chat_template, "J");
}

TEST(ModelFilesTest, DirectoryOfOneGguf) {
  const TempFolder folder;
  const TinyModel tiny;
  folder.write("a.gguf", tiny_gguf(tiny).finish());
  folder.write("config.json", "{}");
  auto model = open_model(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_THAT(model->notes, IsEmpty());
  folder.write("b.gguf", tiny_gguf(tiny).finish());
  EXPECT_THAT(refusal(folder.path()), HasSubstr("holds several models, 'a.gguf' and 'b.gguf'"));
}

TEST(ModelFilesTest, NothingThereIsNotFound) {
  const TempFolder folder;
  EXPECT_THAT(refusal(folder.path()), HasSubstr("not_found"));
  EXPECT_THAT(refusal(folder.path("none.gguf")), HasSubstr("not_found: cannot open"));
  folder.write("config.json", tiny_config(TinyModel()).dump());
  EXPECT_THAT(refusal(folder.path()), HasSubstr("has neither model.safetensors.index.json nor"));
  EXPECT_THAT(refusal(folder.path("config.json")), HasSubstr("name its directory"));
}

}  // namespace
}  // namespace encore
