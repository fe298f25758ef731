// Opens a model: whatever its files are, out come a specification, weights, and what is needed to
// turn text into tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "encore/model_spec.h"
#include "encore/status.h"
#include "encore/weights.h"
#include "model/gguf_value.h"

namespace encore {

// Either tokenizer_json is filled, or gguf, or neither (then there is a note).
struct TextAssets {
  std::string tokenizer_json;         // the file's text
  std::string tokenizer_config_json;  // the file's text; may be empty
  GgufMetadata gguf;                  // all keys of a GGUF file
  std::string chat_template;          // Jinja2 source; empty if the model has none
  std::string bos_token;              // its text; empty if unknown
  std::string eos_token;
};

// What the model's authors recommend; a request's own values win.
struct GenerationDefaults {
  std::vector<int32_t> eos_ids;  // any of them ends the text; each in [0, vocab_size)
  std::optional<bool> do_sample;
  std::optional<double> temperature;
  std::optional<int64_t> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
};

struct ModelFiles {
  ModelSpec spec;
  std::unique_ptr<WeightSource> weights;  // keeps the files open
  TextAssets text;
  GenerationDefaults generation;
  std::vector<std::string> notes;  // for the log: what was ignored or limited, and why
};

// Opens a Hugging Face directory (config.json and safetensors), a GGUF file, any part of a split
// GGUF file, or a directory that holds one GGUF model. Reads headers and configuration only;
// weights are mapped and checked, and none is touched.
// Errors: kNotFound for a file or tensor that is not there; kUnimplemented for an architecture,
// RoPE type, tensor type or sliding window that Encore does not support; kDataLoss for files that
// are malformed, truncated or contradict themselves; kInvalidArgument for sizes out of range.
// Messages name file, tensor or key, expected and found. Any thread may call it.
Result<ModelFiles> open_model(const std::string& path);

}  // namespace encore
