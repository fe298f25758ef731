#include <string>
#include <utility>

#include "model/directory.h"
#include "model/eos_ids.h"
#include "model/json_reader.h"
#include "model/printable.h"
#include "model/text_assets.h"

namespace encore {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxTokenizerBytes = 256 << 20;
constexpr int64_t kMaxTextBytes = 64 << 20;

// The file's text, or "" if there is no such file.
Result<std::string> read_optional(const std::string& path, int64_t max_bytes) {
  if (!is_file(path)) return std::string();
  return read_text_file(path, max_bytes);
}

// A token is given as its text or as an object that holds it.
std::string token_text(const JsonReader& config, const char* key) {
  const Json* token = config.find(key);
  if (token != nullptr && token->is_object()) {
    const auto content = token->find("content");
    token = content == token->end() ? nullptr : &*content;
  }
  return token != nullptr && token->is_string() ? token->get<std::string>() : std::string();
}

// A template is given as its text or as a list of named ones, of which "default" counts.
std::string template_text(const JsonReader& config) {
  const Json* found = config.find("chat_template");
  if (found == nullptr) return {};
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) return {};
  for (const Json& entry : *found) {
    if (!entry.is_object()) continue;
    const auto name = entry.find("name");
    const auto text = entry.find("template");
    if (name != entry.end() && *name == "default" && text != entry.end() && text->is_string()) {
      return text->get<std::string>();
    }
  }
  return {};
}

Status read_tokenizer(const std::string& directory, ModelFiles& model) {
  TextAssets& text = model.text;
  ENCORE_ASSIGN_OR_RETURN(text.tokenizer_json, read_optional(join_path(directory, "tokenizer.json"),
                                                             kMaxTokenizerBytes));
  if (text.tokenizer_json.empty()) {
    model.notes.push_back(concat_message(
        "directory ", printable(directory),
        " has no tokenizer.json; text cannot be encoded (tokenizer.model alone is not read)"));
  }
  const std::string config_path = join_path(directory, "tokenizer_config.json");
  ENCORE_ASSIGN_OR_RETURN(text.tokenizer_config_json, read_optional(config_path, kMaxTextBytes));
  if (!text.tokenizer_config_json.empty()) {
    const std::string where = "file " + printable(config_path);
    ENCORE_ASSIGN_OR_RETURN(const Json config,
                            parse_json_object(text.tokenizer_config_json, where));
    const JsonReader reader(config, where);
    text.bos_token = token_text(reader, "bos_token");
    text.eos_token = token_text(reader, "eos_token");
    text.chat_template = template_text(reader);
  }
  // The separate file is the newer layout and wins.
  ENCORE_ASSIGN_OR_RETURN(
      std::string separate,
      read_optional(join_path(directory, "chat_template.jinja"), kMaxTextBytes));
  if (!separate.empty()) text.chat_template = std::move(separate);
  return {};
}

Status read_generation(const std::string& directory, std::vector<int64_t>* eos_ids,
                       GenerationDefaults* generation) {
  const std::string path = join_path(directory, "generation_config.json");
  ENCORE_ASSIGN_OR_RETURN(const std::string text, read_optional(path, kMaxTextBytes));
  if (text.empty()) return {};
  const std::string where = "file " + printable(path);
  ENCORE_ASSIGN_OR_RETURN(const Json config, parse_json_object(text, where));
  const JsonReader reader(config, where);
  ENCORE_RETURN_IF_ERROR(reader.read_list("eos_token_id", eos_ids));
  ENCORE_RETURN_IF_ERROR(reader.read("do_sample", &generation->do_sample));
  ENCORE_RETURN_IF_ERROR(reader.read("temperature", &generation->temperature));
  ENCORE_RETURN_IF_ERROR(reader.read("top_k", &generation->top_k));
  ENCORE_RETURN_IF_ERROR(reader.read("top_p", &generation->top_p));
  ENCORE_RETURN_IF_ERROR(reader.read("min_p", &generation->min_p));
  return reader.read("repetition_penalty", &generation->repetition_penalty);
}

}  // namespace

Status read_hf_text(const std::string& directory, const std::vector<int64_t>& config_eos_ids,
                    ModelFiles& model) {
  ENCORE_RETURN_IF_ERROR(read_tokenizer(directory, model));
  std::vector<int64_t> eos_ids = config_eos_ids;
  ENCORE_RETURN_IF_ERROR(read_generation(directory, &eos_ids, &model.generation));
  set_eos_ids(eos_ids, model);
  return {};
}

}  // namespace encore
