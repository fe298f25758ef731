// Adapters between what a model's files say about text and what engine and verbs need.
#pragma once

#include <memory>

#include "encore/status.h"
#include "engine/token_text.h"
#include "model/model_files.h"
#include "text/tokenizer.h"

namespace encore {

// From tokenizer.json if there is one, else from GGUF metadata.
// Errors: kNotFound if the model has neither; the tokenizer's own.
Result<std::unique_ptr<Tokenizer>> make_tokenizer(const TextAssets& assets);

// For EngineOptions::make_text. Borrows the tokenizer, which must outlive the engine.
TokenTextFactory text_factory(const Tokenizer& tokenizer, const DecodeOptions& options);

}  // namespace encore
