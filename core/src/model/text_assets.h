// What stands beside a model's weights: tokenizer, chat template, recommended sampling.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "encore/status.h"
#include "model/model_files.h"

namespace encore {

// From a Hugging Face directory. `config_eos_ids` are config.json's, used where
// generation_config.json has none, as in transformers.
Status read_hf_text(const std::string& directory, const std::vector<int64_t>& config_eos_ids,
                    ModelFiles& model);

// From a GGUF file's keys, which become part of `model`.
Status read_gguf_text(GgufMetadata metadata, const std::string& path, ModelFiles& model);

}  // namespace encore
