#include "openai/json_text.h"
#include "openai/reply_writer.h"

namespace encore {
namespace {

void append_token_ids(const std::vector<int32_t>& ids, std::string& out) {
  out.push_back('[');
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out.push_back(',');
    append_json_integer(ids[i], out);
  }
  out.push_back(']');
}

void append_strings(const std::vector<std::string>& texts, std::string& out) {
  out.push_back('[');
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) out.push_back(',');
    append_json_string(texts[i], out);
  }
  out.push_back(']');
}

}  // namespace

std::string model_json(const ModelCard& model) {
  std::string out = "{\"id\":";
  append_json_string(model.name, out);
  out.append(",\"object\":\"model\",\"created\":");
  append_json_integer(model.created, out);
  out.append(",\"owned_by\":\"encore\",\"max_model_len\":");
  append_json_integer(model.max_model_len, out);
  out.push_back('}');
  return out;
}

std::string models_json(const ModelCard& model) {
  std::string out = "{\"object\":\"list\",\"data\":[";
  out.append(model_json(model)).append("]}");
  return out;
}

std::string tokenize_json(const std::vector<int32_t>& ids, int32_t max_model_len,
                          const std::vector<std::string>* token_strs) {
  std::string out = "{\"count\":";
  append_json_integer(static_cast<int64_t>(ids.size()), out);
  out.append(",\"max_model_len\":");
  append_json_integer(max_model_len, out);
  out.append(",\"tokens\":");
  append_token_ids(ids, out);
  out.append(",\"token_strs\":");
  if (token_strs == nullptr) {
    out.append("null");
  } else {
    append_strings(*token_strs, out);
  }
  out.push_back('}');
  return out;
}

std::string detokenize_json(std::string_view text) {
  std::string out = "{\"prompt\":";
  append_json_string(text, out);
  out.push_back('}');
  return out;
}

}  // namespace encore
