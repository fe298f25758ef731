// What a model is, before any of its weights are touched.
//
// `ModelSpec` is read from a Hugging Face directory or a GGUF file, checked, and handed through the
// C ABI to a backend. It carries numbers, not file-format habits: RoPE scaling, for example, has
// already become a table of frequencies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace encore {

// How a head's elements pair up for rotation. The numbers are part of the C ABI.
enum class RopeStyle : int32_t {
  kHalfSplit = 0,      // element i with i + head_dim / 2 (Hugging Face checkpoints)
  kAdjacentPairs = 1,  // element 2i with 2i + 1 (Llama checkpoints in GGUF)
};

struct RopeSpec {
  RopeStyle style = RopeStyle::kHalfSplit;
  // Radians a position for each rotated pair, scaling (linear, llama3, yarn, ...) applied:
  // [rotary_dim / 2]. Angle of pair i at position p is p * inv_freq[i].
  std::vector<float> inv_freq;
  float attention_scale = 1.0F;  // multiplies cos and sin; 1 unless yarn says otherwise
};

struct ModelSpec {
  std::string architecture;  // "llama", "mistral", "qwen2", "qwen3"
  std::string name;          // for people; may be empty
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;     // configuration wins over hidden_size / num_heads
  int64_t max_context = 0;  // tokens, prompt and reply together
  float rms_norm_eps = 1e-5F;
  RopeSpec rope;
  bool tied_embeddings = false;        // the head is the embedding matrix
  bool qkv_bias = false;               // q, k and v linears have a bias
  bool attention_output_bias = false;  // so does o
  bool mlp_bias = false;               // so do gate, up and down
  bool qk_norm = false;                // RMS norm of each q and k head before rotation

  int64_t q_size() const { return num_heads * head_dim; }
  int64_t kv_size() const { return num_kv_heads * head_dim; }
};

}  // namespace encore
