#include "test_files.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "model/printable.h"

namespace encore {
namespace {

std::string shard_name(size_t shard, size_t shards) {
  if (shards == 1) return "model.safetensors";
  return concat_message("model-0000", shard + 1, "-of-0000", shards, ".safetensors");
}

std::string counted(std::string_view text) {
  return bytes_of<uint64_t>(text.size()) + std::string(text);
}

}  // namespace

TempFolder::TempFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "encore_model_XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  root_ = name;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}

std::string TempFolder::path(std::string_view name) const {
  return name.empty() ? root_.string() : (root_ / name).string();
}

std::string TempFolder::write(std::string_view name, std::string_view content) const {
  std::ofstream(path(name), std::ios::binary) << content;
  return path(name);
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

GgufWriter& GgufWriter::raw(std::string_view key, uint32_t type, std::string_view value) {
  ++keys_;
  key_bytes_ += counted(key);
  key_bytes_ += bytes_of(type);
  key_bytes_ += value;
  return *this;
}

GgufWriter& GgufWriter::text(std::string_view key, std::string_view value) {
  return raw(key, 8, counted(value));
}

GgufWriter& GgufWriter::texts(std::string_view key, const std::vector<std::string>& values) {
  std::string bytes = bytes_of<uint32_t>(8) + bytes_of<uint64_t>(values.size());
  for (const std::string& value : values) bytes += counted(value);
  return raw(key, 9, bytes);
}

GgufWriter& GgufWriter::tensor(std::string_view name, uint32_t type, std::vector<uint64_t> dims,
                               const std::string& data) {
  data_.resize((data_.size() + alignment - 1) / alignment * alignment, '\0');
  tensor_at(name, type, std::move(dims), data_.size());
  data_ += data;
  return *this;
}

GgufWriter& GgufWriter::tensor_at(std::string_view name, uint32_t type, std::vector<uint64_t> dims,
                                  uint64_t offset) {
  tensors_.push_back({std::string(name), type, std::move(dims), offset});
  return *this;
}

std::string GgufWriter::finish() const {
  std::string file = "GGUF" + bytes_of(version) + bytes_of<uint64_t>(tensors_.size()) +
                     bytes_of(keys_) + key_bytes_;
  for (const Tensor& tensor : tensors_) {
    file += counted(tensor.name);
    file += bytes_of(static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t dim : tensor.dims) file += bytes_of(dim);
    file += bytes_of(tensor.type);
    file += bytes_of(tensor.offset);
  }
  file.resize((file.size() + alignment - 1) / alignment * alignment, '\0');
  return file + data_;
}

SafetensorsWriter& SafetensorsWriter::tensor(const std::string& name, const std::string& dtype,
                                             const std::vector<int64_t>& shape,
                                             const std::string& data) {
  header_[name] = {{"dtype", dtype},
                   {"shape", shape},
                   {"data_offsets", {data_.size(), data_.size() + data.size()}}};
  data_ += data;
  return *this;
}

std::string SafetensorsWriter::finish() const { return with_header(header_.dump(), data_); }

std::string SafetensorsWriter::with_header(const std::string& header, const std::string& data) {
  std::string padded = header;
  padded.resize((header.size() + 7) / 8 * 8, ' ');
  return bytes_of<uint64_t>(padded.size()) + padded + data;
}

std::vector<TinyTensor> tiny_tensors(const TinyModel& m) {
  std::vector<TinyTensor> tensors;
  const auto add = [&](const std::string& hf, const std::string& gguf, std::vector<int64_t> shape) {
    int64_t elements = 1;
    for (const int64_t dim : shape) elements *= dim;
    std::string data;
    for (int64_t i = 0; i < elements; ++i) {
      data += bytes_of(static_cast<float>(tensors.size()) + static_cast<float>(i % 97) / 128.0F);
    }
    tensors.push_back({hf, gguf, std::move(shape), std::move(data)});
  };
  const int64_t q = m.heads * m.head_dim;
  const int64_t kv = m.kv_heads * m.head_dim;
  add("model.embed_tokens.weight", "token_embd.weight", {m.vocab, m.hidden});
  for (int64_t i = 0; i < m.layers; ++i) {
    const std::string hf = concat_message("model.layers.", i, ".");
    const std::string gguf = concat_message("blk.", i, ".");
    add(hf + "input_layernorm.weight", gguf + "attn_norm.weight", {m.hidden});
    add(hf + "self_attn.q_proj.weight", gguf + "attn_q.weight", {q, m.hidden});
    add(hf + "self_attn.k_proj.weight", gguf + "attn_k.weight", {kv, m.hidden});
    add(hf + "self_attn.v_proj.weight", gguf + "attn_v.weight", {kv, m.hidden});
    if (m.qkv_bias) {
      add(hf + "self_attn.q_proj.bias", gguf + "attn_q.bias", {q});
      add(hf + "self_attn.k_proj.bias", gguf + "attn_k.bias", {kv});
      add(hf + "self_attn.v_proj.bias", gguf + "attn_v.bias", {kv});
    }
    if (m.qk_norm) {
      add(hf + "self_attn.q_norm.weight", gguf + "attn_q_norm.weight", {m.head_dim});
      add(hf + "self_attn.k_norm.weight", gguf + "attn_k_norm.weight", {m.head_dim});
    }
    add(hf + "self_attn.o_proj.weight", gguf + "attn_output.weight", {m.hidden, q});
    add(hf + "post_attention_layernorm.weight", gguf + "ffn_norm.weight", {m.hidden});
    add(hf + "mlp.gate_proj.weight", gguf + "ffn_gate.weight", {m.inner, m.hidden});
    add(hf + "mlp.up_proj.weight", gguf + "ffn_up.weight", {m.inner, m.hidden});
    add(hf + "mlp.down_proj.weight", gguf + "ffn_down.weight", {m.hidden, m.inner});
  }
  add("model.norm.weight", "output_norm.weight", {m.hidden});
  if (m.head) add("lm_head.weight", "output.weight", {m.vocab, m.hidden});
  return tensors;
}

GgufWriter tiny_gguf(const TinyModel& m) {
  const auto u32 = [](int64_t value) { return static_cast<uint32_t>(value); };
  const std::string a = m.architecture + ".";
  GgufWriter writer;
  writer.text("general.architecture", m.architecture)
      .text("general.name", "tiny")
      .u32(a + "block_count", u32(m.layers))
      .u32(a + "context_length", u32(m.context))
      .u32(a + "embedding_length", u32(m.hidden))
      .u32(a + "feed_forward_length", u32(m.inner))
      .u32(a + "attention.head_count", u32(m.heads))
      .u32(a + "attention.head_count_kv", u32(m.kv_heads))
      .u32(a + "attention.key_length", u32(m.head_dim))
      .u32(a + "attention.value_length", u32(m.head_dim))
      .f32(a + "attention.layer_norm_rms_epsilon", 1e-5F)
      .text("tokenizer.ggml.model", "gpt2")
      .text("tokenizer.chat_template", "{{ messages }}")
      .u32("tokenizer.ggml.bos_token_id", 1)
      .u32("tokenizer.ggml.eos_token_id", 2);
  std::vector<std::string> tokens;
  for (int64_t i = 0; i < m.vocab; ++i) tokens.push_back(concat_message("t", i));
  writer.texts("tokenizer.ggml.tokens", tokens);
  for (const TinyTensor& tensor : tiny_tensors(m)) {
    const std::vector<uint64_t> dims(tensor.shape.rbegin(), tensor.shape.rend());
    writer.tensor(tensor.gguf, 0, dims, tensor.data);
  }
  return writer;
}

nlohmann::json tiny_config(const TinyModel& m) {
  return {{"model_type", m.architecture},
          {"vocab_size", m.vocab},
          {"hidden_size", m.hidden},
          {"intermediate_size", m.inner},
          {"num_hidden_layers", m.layers},
          {"num_attention_heads", m.heads},
          {"num_key_value_heads", m.kv_heads},
          {"head_dim", m.head_dim},
          {"max_position_embeddings", m.context},
          {"rms_norm_eps", 1e-5},
          {"tie_word_embeddings", !m.head},
          {"eos_token_id", 2}};
}

void write_tiny_hf(const TempFolder& folder, const TinyModel& model, const nlohmann::json& config,
                   size_t shards) {
  folder.write("config.json", config.dump());
  std::vector<SafetensorsWriter> writers(shards);
  nlohmann::json map;
  size_t next = 0;
  for (const TinyTensor& tensor : tiny_tensors(model)) {
    const size_t shard = next++ % shards;
    writers[shard].tensor(tensor.hugging_face, "F32", tensor.shape, tensor.data);
    map[tensor.hugging_face] = shard_name(shard, shards);
  }
  for (size_t i = 0; i < shards; ++i) folder.write(shard_name(i, shards), writers[i].finish());
  if (shards > 1) {
    const nlohmann::json index = {{"metadata", nlohmann::json::object()}, {"weight_map", map}};
    folder.write("model.safetensors.index.json", index.dump());
  }
}

}  // namespace encore
