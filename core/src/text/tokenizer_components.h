// The parts of tokenizer.json that say how text is normalized, split and decoded.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "encore/status.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/token_decoder.h"

namespace encore {

struct PreTokenizerParts {
  PreTokenizer pre_tokenizer;
  bool byte_level = false;  // the model's words are bytes
};

struct PostProcessorParts {
  std::vector<int32_t> prefix, suffix;
};

// The integer that `json` is; `what` names it in the error. Unlike get<int64_t>(), takes
// neither 1.5 nor 1e300. Errors: kDataLoss.
Result<int64_t> read_integer(const nlohmann::json& json, const std::string& what);

// Each takes the component's JSON, which may be null, and names in its error what it does not know:
// kUnimplemented for a type or option, kDataLoss for a member of wrong type. They may throw
// nlohmann exceptions; the caller catches them.
Result<Normalizer> read_normalizer(const nlohmann::json& json);
Result<PreTokenizerParts> read_pre_tokenizer(const nlohmann::json& json);
Result<TokenDecoder> read_decoder(const nlohmann::json& json);
Result<PostProcessorParts> read_post_processor(const nlohmann::json& json);

}  // namespace encore
