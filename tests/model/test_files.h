// Writers of small model files for tests, right ones and wrong ones. They know the formats only as
// byte layouts; the committed files from other writers (data/) guard against a shared mistake.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace encore {

// A folder that is removed with everything in it.
class TempFolder {
 public:
  TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder();

  std::string path(std::string_view name = "") const;
  // Writes a file of this folder and returns its path.
  std::string write(std::string_view name, std::string_view content) const;

 private:
  std::filesystem::path root_;
};

std::string read_file(const std::string& path);

// The little-endian bytes of a number.
template <typename T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

// Collects keys and tensors; finish() gives the file. Types are GGUF's numbers.
class GgufWriter {
 public:
  // Any key: `type` and the value's bytes as they are.
  GgufWriter& raw(std::string_view key, uint32_t type, std::string_view value);
  GgufWriter& u32(std::string_view key, uint32_t value) { return raw(key, 4, bytes_of(value)); }
  GgufWriter& f32(std::string_view key, float value) { return raw(key, 6, bytes_of(value)); }
  GgufWriter& text(std::string_view key, std::string_view value);
  GgufWriter& texts(std::string_view key, const std::vector<std::string>& values);

  // `dims` innermost first, as in the file.
  GgufWriter& tensor(std::string_view name, uint32_t type, std::vector<uint64_t> dims,
                     const std::string& data);
  // As the last, with an offset of the caller's choice and no data.
  GgufWriter& tensor_at(std::string_view name, uint32_t type, std::vector<uint64_t> dims,
                        uint64_t offset);

  std::string finish() const;

  uint32_t version = 3;
  uint64_t alignment = 32;  // of the data; the key is the caller's

 private:
  struct Tensor {
    std::string name;
    uint32_t type;
    std::vector<uint64_t> dims;
    uint64_t offset;
  };
  uint64_t keys_ = 0;
  std::string key_bytes_;
  std::vector<Tensor> tensors_;
  std::string data_;
};

class SafetensorsWriter {
 public:
  SafetensorsWriter& tensor(const std::string& name, const std::string& dtype,
                            const std::vector<int64_t>& shape, const std::string& data);
  std::string finish() const;
  // The file with a header of the caller's choice.
  static std::string with_header(const std::string& header, const std::string& data);

  const nlohmann::json& header() const { return header_; }

 private:
  nlohmann::json header_ = nlohmann::json::object();
  std::string data_;
};

// Sizes of the tiny model that the writers below produce.
struct TinyModel {
  std::string architecture = "llama";
  int64_t vocab = 48;
  int64_t hidden = 64;
  int64_t inner = 96;
  int64_t layers = 2;
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t head_dim = 16;
  int64_t context = 256;
  bool head = true;  // an output matrix of its own
  bool qkv_bias = false;
  bool qk_norm = false;
};

struct TinyTensor {
  std::string hugging_face;
  std::string gguf;
  std::vector<int64_t> shape;  // outermost first
  std::string data;            // f32, different in each tensor
};

std::vector<TinyTensor> tiny_tensors(const TinyModel& model);

// All keys and f32 tensors; add to it or finish() it.
GgufWriter tiny_gguf(const TinyModel& model);

nlohmann::json tiny_config(const TinyModel& model);

// Writes config.json and the weights in `shards` files (one: model.safetensors; more: an index
// too).
void write_tiny_hf(const TempFolder& folder, const TinyModel& model, const nlohmann::json& config,
                   size_t shards = 1);

}  // namespace encore
