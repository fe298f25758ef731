#include <gtest/gtest.h>

#include "openai/reply_writer.h"

namespace encore {
namespace {

const ModelCard kCard{.name = "smol", .created = 1700000000, .max_model_len = 8192};

TEST(SmallBodiesTest, OneModel) {
  EXPECT_EQ(model_json(kCard),
            R"({"id":"smol","object":"model","created":1700000000,"owned_by":"encore",)"
            R"("max_model_len":8192})");
}

TEST(SmallBodiesTest, ListOfModels) {
  EXPECT_EQ(models_json(kCard),
            R"({"object":"list","data":[{"id":"smol","object":"model","created":1700000000,)"
            R"("owned_by":"encore","max_model_len":8192}]})");
}

TEST(SmallBodiesTest, TokenizedText) {
  EXPECT_EQ(tokenize_json({1, 42, 7}, 8192, nullptr),
            R"({"count":3,"max_model_len":8192,"tokens":[1,42,7],"token_strs":null})");
  EXPECT_EQ(tokenize_json({}, 8192, nullptr),
            R"({"count":0,"max_model_len":8192,"tokens":[],"token_strs":null})");
}

TEST(SmallBodiesTest, TokenStringsAreValidWhateverTheirBytes) {
  const std::vector<std::string> texts = {"<s>", "a\"b", "\xE8\x81"};
  EXPECT_EQ(tokenize_json({1, 42, 7}, 8192, &texts),
            "{\"count\":3,\"max_model_len\":8192,\"tokens\":[1,42,7],"
            "\"token_strs\":[\"<s>\",\"a\\\"b\",\"\uFFFD\"]}");
}

TEST(SmallBodiesTest, DetokenizedText) {
  EXPECT_EQ(detokenize_json("two\nlines"), R"({"prompt":"two\nlines"})");
}

}  // namespace
}  // namespace encore
