// Damaged files of every kind give an error or a model whose weights can all be read, never a crash
// and never memory that the file's size does not warrant. Run under the asan preset to mean most.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "model/model_files.h"
#include "test_files.h"

namespace encore {
namespace {

// Reads every weight through both ways if the model opens. True if it did.
bool open_and_read(const std::string& path) {
  const auto model = open_model(path);
  if (!model.ok()) {
    EXPECT_FALSE(model.status().message().empty());
    return false;
  }
  const std::span<const WeightInfo> weights = model->weights->weights();
  for (size_t i = 0; i < weights.size(); ++i) {
    std::string data(static_cast<size_t>(weights[i].bytes), '\0');
    EXPECT_TRUE(model->weights->read(i, 0, std::as_writable_bytes(std::span(data))).ok());
    const std::byte* mapped = model->weights->map(i);
    if (mapped != nullptr) {
      EXPECT_EQ(std::memcmp(mapped, data.data(), data.size()), 0);
    }
  }
  return true;
}

// Bytes before the data of the first tensor.
size_t gguf_header_bytes(const std::string& file) {
  return file.size() - [] {
    size_t data = 0;
    for (const TinyTensor& tensor : tiny_tensors(TinyModel())) data += tensor.data.size();
    return data;
  }();
}

TEST(MalformedTest, GgufTruncatedAtEveryKilobyte) {
  const TempFolder folder;
  const std::string path = folder.write("m.gguf", tiny_gguf(TinyModel()).finish());
  ASSERT_TRUE(open_and_read(path));
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
  for (int64_t bytes = (size - 1) / 1024 * 1024; bytes >= 0; bytes -= 1024) {
    ASSERT_EQ(::truncate(path.c_str(), bytes), 0);
    EXPECT_FALSE(open_and_read(path)) << bytes;
  }
}

TEST(MalformedTest, GgufTruncatedAtEveryByteOfItsHeader) {
  const TempFolder folder;
  const std::string content = tiny_gguf(TinyModel()).finish();
  const std::string path = folder.write("m.gguf", content);
  for (auto bytes = static_cast<int64_t>(gguf_header_bytes(content)); bytes >= 0; --bytes) {
    ASSERT_EQ(::truncate(path.c_str(), bytes), 0);
    EXPECT_FALSE(open_and_read(path)) << bytes;
  }
}

TEST(MalformedTest, GgufCutToSixtyPercent) {
  const TempFolder folder;
  const std::string content = tiny_gguf(TinyModel()).finish();
  const std::string path = folder.write("m.gguf", content.substr(0, content.size() * 6 / 10));
  const auto model = open_model(path);
  ASSERT_EQ(model.status().code(), StatusCode::kDataLoss);
  EXPECT_NE(model.status().message().find("m.gguf': tensor 'blk."), std::string::npos)
      << model.status().message();
}

// A model whose header is most of its file.
TinyModel smallest() {
  TinyModel tiny;
  tiny.layers = 1;
  tiny.vocab = 4;
  tiny.hidden = 4;
  tiny.inner = 4;
  tiny.heads = 2;
  tiny.kv_heads = 1;
  tiny.head_dim = 2;
  return tiny;
}

// Flips bytes of the file's first `header_bytes` one at a time and opens `model`. Returns how many
// of the three damages to each byte were refused.
int flip_every_byte(const std::string& file, size_t header_bytes, const std::string& model) {
  const std::string content = read_file(file);
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  const auto put = [&](size_t offset, unsigned char byte) {
    stream.seekp(static_cast<std::streamoff>(offset));
    stream.put(static_cast<char>(byte));
    stream.flush();
  };
  int refused = 0;
  for (size_t i = 0; i < header_bytes; ++i) {
    const auto original = static_cast<unsigned char>(content[i]);
    for (const unsigned flip : {0x01U, 0x80U, 0xFFU}) {
      put(i, static_cast<unsigned char>(original ^ flip));
      refused += open_and_read(model) ? 0 : 1;
    }
    put(i, original);
  }
  EXPECT_EQ(read_file(file), content);
  return refused;
}

TEST(MalformedTest, GgufWithFlippedHeaderBytes) {
  const TempFolder folder;
  const std::string content = tiny_gguf(smallest()).finish();
  const std::string path = folder.write("m.gguf", content);
  const size_t header_bytes = content.find("output.weight") + 37;
  // Most bytes are parts of names or sizes that matter.
  EXPECT_GT(flip_every_byte(path, header_bytes, path), static_cast<int>(header_bytes));
}

TEST(MalformedTest, SafetensorsTruncatedAtEveryKilobyte) {
  const TempFolder folder;
  const TinyModel tiny;
  write_tiny_hf(folder, tiny, tiny_config(tiny));
  ASSERT_TRUE(open_and_read(folder.path()));
  const std::string path = folder.path("model.safetensors");
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
  for (int64_t bytes = (size - 1) / 1024 * 1024; bytes >= 0; bytes -= 1024) {
    ASSERT_EQ(::truncate(path.c_str(), bytes), 0);
    EXPECT_FALSE(open_and_read(folder.path())) << bytes;
  }
}

TEST(MalformedTest, SafetensorsWithFlippedHeaderBytes) {
  const TempFolder folder;
  write_tiny_hf(folder, smallest(), tiny_config(smallest()));
  const std::string path = folder.path("model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, read_file(path).data(), sizeof(length));
  const auto header_bytes = static_cast<size_t>(length) + 8;
  EXPECT_GT(flip_every_byte(path, header_bytes, folder.path()), static_cast<int>(header_bytes));
}

TEST(MalformedTest, LyingHeadersTakeNoMemory) {
  const auto peak_kilobytes = [] {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const TempFolder folder;
  const int64_t before = peak_kilobytes();
  for (const uint32_t type : {0U, 4U, 8U, 9U, 10U}) {
    GgufWriter writer;
    writer.raw("k", 9, bytes_of(type) + bytes_of(uint64_t{1} << 62));
    EXPECT_FALSE(open_and_read(folder.write("m.gguf", writer.finish())));
  }
  for (const char* key : {"block_count", "embedding_length", "feed_forward_length"}) {
    GgufWriter writer;
    writer.text("general.architecture", "llama");
    for (const char* other : {"block_count", "embedding_length", "feed_forward_length",
                              "attention.head_count", "context_length"}) {
      writer.u32("llama." + std::string(other), std::string(other) == key ? UINT32_MAX : 64);
    }
    writer.f32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
    EXPECT_FALSE(open_and_read(folder.write("m.gguf", writer.finish())));
  }
  EXPECT_FALSE(open_and_read(folder.write(
      "m.gguf",
      "GGUF" + bytes_of<uint32_t>(3) + bytes_of(uint64_t{1} << 62) + bytes_of(uint64_t{1} << 62))));
  EXPECT_LT(peak_kilobytes() - before, 64 * 1024);
}

}  // namespace
}  // namespace encore
