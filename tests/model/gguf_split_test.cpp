#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "model/model_files.h"
#include "test_files.h"

namespace encore {
namespace {

using ::testing::HasSubstr;

std::string part_name(int number, int count = 3) {
  return "m-0000" + std::to_string(number) + "-of-0000" + std::to_string(count) + ".gguf";
}

// The tiny model in three parts, as llama.cpp's splitter leaves it: all keys in the first.
void write_parts(const TempFolder& folder, uint16_t claimed_count = 3) {
  TinyModel keys_only;
  const std::vector<TinyTensor> tensors = tiny_tensors(keys_only);
  for (int part = 0; part < 3; ++part) {
    GgufWriter writer;
    if (part == 0) {
      keys_only.layers = 2;
      writer.text("general.architecture", "llama")
          .u32("llama.block_count", 2)
          .u32("llama.context_length", 256)
          .u32("llama.embedding_length", 64)
          .u32("llama.feed_forward_length", 96)
          .u32("llama.attention.head_count", 4)
          .u32("llama.attention.head_count_kv", 2)
          .f32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
    }
    writer.raw("split.no", 2, bytes_of(static_cast<uint16_t>(part)))
        .raw("split.count", 2, bytes_of(claimed_count))
        .raw("split.tensors.count", 5, bytes_of(static_cast<int32_t>(tensors.size())));
    for (size_t i = static_cast<size_t>(part); i < tensors.size(); i += 3) {
      writer.tensor(tensors[i].gguf, 0, {tensors[i].shape.rbegin(), tensors[i].shape.rend()},
                    tensors[i].data);
    }
    folder.write(part_name(part + 1), writer.finish());
  }
}

TEST(GgufSplitTest, AnyPartOrTheDirectoryOpensAll) {
  const TempFolder folder;
  write_parts(folder);
  for (const std::string& path :
       {folder.path(part_name(1)), folder.path(part_name(3)), folder.path()}) {
    auto model = open_model(path);
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    const std::vector<TinyTensor> tensors = tiny_tensors(TinyModel());
    ASSERT_EQ(model->weights->weights().size(), tensors.size());
    // tiny_tensors() lists them in the order of the specification.
    for (size_t i = 0; i < tensors.size(); ++i) {
      std::string data(tensors[i].data.size(), '\0');
      ASSERT_TRUE(model->weights->read(i, 0, std::as_writable_bytes(std::span(data))).ok());
      EXPECT_EQ(data, tensors[i].data) << tensors[i].gguf;
    }
  }
}

TEST(GgufSplitTest, MissingPartIsNamed) {
  const TempFolder folder;
  write_parts(folder);
  std::filesystem::remove(folder.path(part_name(2)));
  const auto model = open_model(folder.path(part_name(1)));
  EXPECT_EQ(model.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(model.status().message(), HasSubstr(part_name(2)));
}

TEST(GgufSplitTest, PartsThatContradictAreRefused) {
  const TempFolder folder;
  write_parts(folder);
  std::filesystem::copy_file(folder.path(part_name(2)), folder.path(part_name(3)),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(open_model(folder.path(part_name(1))).status().message(),
              HasSubstr("tensor 'blk.0.attn_norm.weight' is in file"));
  write_parts(folder, 4);
  EXPECT_THAT(open_model(folder.path(part_name(1))).status().message(),
              HasSubstr("says it is part 1 of 4; expected part 1 of 3"));
}

TEST(GgufSplitTest, WrongNumberOfTensorsIsRefused) {
  const TempFolder folder;
  write_parts(folder);
  folder.write(part_name(3), GgufWriter()
                                 .raw("split.no", 2, bytes_of<uint16_t>(2))
                                 .raw("split.count", 2, bytes_of<uint16_t>(3))
                                 .finish());
  EXPECT_THAT(open_model(folder.path(part_name(1))).status().message(),
              HasSubstr("split.tensors.count says 21"));
}

TEST(GgufSplitTest, RenamedPartIsRefused) {
  const TempFolder folder;
  write_parts(folder);
  std::filesystem::copy_file(folder.path(part_name(1)), folder.path("whole.gguf"));
  EXPECT_THAT(open_model(folder.path("whole.gguf")).status().message(),
              HasSubstr("is one of 3 parts; expected a name that ends in"));
  EXPECT_EQ(open_model(folder.path()).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace encore
