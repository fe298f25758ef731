// The model that quickstart uses. Needs ENCORE_TEST_MODELS, a folder that holds the file.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "model/model_files.h"
#include "test_files.h"

namespace encore {
namespace {

constexpr int64_t kHeaderBytes = 2 << 20;

class SmolLm2Test : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("ENCORE_TEST_MODELS");
    if (folder == nullptr) GTEST_SKIP() << "ENCORE_TEST_MODELS is not set";
    path_ = std::string(folder) + "/SmolLM2-135M-Instruct.Q4_1.gguf";
    if (!std::filesystem::exists(path_)) GTEST_SKIP() << path_ << " does not exist";
  }
  std::string path_;
};

TEST_F(SmolLm2Test, Opens) {
  const auto model = open_model(path_);
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  const ModelSpec& spec = model->spec;
  EXPECT_EQ(spec.architecture, "llama");
  EXPECT_EQ(spec.vocab_size, 49152);
  EXPECT_EQ(spec.hidden_size, 576);
  EXPECT_EQ(spec.intermediate_size, 1536);
  EXPECT_EQ(spec.num_layers, 30);
  EXPECT_EQ(spec.num_heads, 9);
  EXPECT_EQ(spec.num_kv_heads, 3);
  EXPECT_EQ(spec.head_dim, 64);
  EXPECT_EQ(spec.max_context, 8192);
  EXPECT_TRUE(spec.tied_embeddings);
  EXPECT_EQ(spec.rope.style, RopeStyle::kAdjacentPairs);
  EXPECT_FLOAT_EQ(spec.rope.inv_freq[1], 0.69783058F);  // 100000 ^ (-2 / 64)
  EXPECT_EQ(model->weights->weights().size(), 272U);
  EXPECT_EQ(model->weights->weights()[0].dtype, DType::kQ8_0);
  EXPECT_EQ(model->generation.eos_ids, std::vector<int32_t>{2});
  EXPECT_EQ(model->text.eos_token, "<|im_end|>");
  EXPECT_TRUE(model->notes.empty());
}

TEST_F(SmolLm2Test, OpensInUnderThirtyMilliseconds) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
  GTEST_SKIP() << "timed in the release build only";
#endif
  double best_ms = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(open_model(path_).ok());
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    best_ms = std::min(best_ms, took.count());
  }
  EXPECT_LT(best_ms, 30.0);
}

// Every kilobyte of the header, then every 512 KiB of the data.
TEST_F(SmolLm2Test, EveryTruncationIsAnError) {
  const TempFolder folder;
  const std::string copy = folder.path("m.gguf");
  std::filesystem::copy_file(path_, copy);
  for (auto bytes = static_cast<int64_t>(std::filesystem::file_size(copy)) - 1; bytes >= 0;
       bytes -= bytes > kHeaderBytes ? 512 << 10 : 1 << 10) {
    ASSERT_EQ(::truncate(copy.c_str(), bytes), 0);
    ASSERT_FALSE(open_model(copy).ok()) << bytes;
  }
}

}  // namespace
}  // namespace encore
