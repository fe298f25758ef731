#include <string>
#include <utility>
#include <vector>

#include "model/eos_ids.h"
#include "model/gguf_keys.h"
#include "model/printable.h"
#include "model/text_assets.h"

namespace encore {
namespace {

std::string token_text(const GgufMetadata& metadata, int64_t id) {
  const auto* tokens = gguf_find<std::vector<std::string>>(metadata, "tokenizer.ggml.tokens");
  if (tokens == nullptr || id < 0 || id >= static_cast<int64_t>(tokens->size())) return {};
  return (*tokens)[static_cast<size_t>(id)];
}

}  // namespace

Status read_gguf_text(GgufMetadata metadata, const std::string& path, ModelFiles& model) {
  const GgufKeys keys(metadata, "tokenizer.", "file " + printable(path));
  ENCORE_RETURN_IF_ERROR(keys.read("chat_template", &model.text.chat_template));
  int64_t bos = -1;
  ENCORE_RETURN_IF_ERROR(keys.read("ggml.bos_token_id", &bos));
  model.text.bos_token = token_text(metadata, bos);
  std::vector<int64_t> eos_ids;
  for (const char* key : {"ggml.eos_token_id", "ggml.eot_token_id", "ggml.eom_token_id"}) {
    if (keys.has(key)) ENCORE_RETURN_IF_ERROR(keys.read(key, &eos_ids.emplace_back()));
  }
  if (keys.has("ggml.eos_token_id")) model.text.eos_token = token_text(metadata, eos_ids.front());
  set_eos_ids(eos_ids, model);
  if (metadata.find("tokenizer.ggml.tokens") == metadata.end()) {
    model.notes.push_back(
        concat_message("file ", printable(path), " has no tokenizer; text cannot be encoded"));
  }
  model.text.gguf = std::move(metadata);
  return {};
}

}  // namespace encore
