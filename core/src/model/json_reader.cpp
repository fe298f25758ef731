#include "model/json_reader.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "model/mapped_file.h"
#include "model/printable.h"

namespace encore {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 64;

// Brackets open at once, at most, outside strings.
int nesting(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

Result<std::string> read_text_file(const std::string& path, int64_t max_bytes) {
  ENCORE_ASSIGN_OR_RETURN(const std::unique_ptr<MappedFile> file, MappedFile::open(path));
  if (file->size() > max_bytes) {
    return invalid_argument(concat_message("file ", printable(path), " has ", file->size(),
                                           " bytes; the limit for this kind of file is ",
                                           max_bytes));
  }
  std::string text(static_cast<size_t>(file->size()), '\0');
  ENCORE_RETURN_IF_ERROR(file->read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

Result<nlohmann::json> parse_json_object(std::string_view text, const std::string& where) {
  const int depth = nesting(text);
  if (depth > kMaxDepth) {
    return data_loss(
        concat_message(where, " nests JSON ", depth, " levels deep; the limit is ", kMaxDepth));
  }
  std::set<std::string> keys;
  std::optional<std::string> twice;
  const auto watch = [&](int level, Json::parse_event_t event, Json& parsed) {
    if (level == 1 && event == Json::parse_event_t::key &&
        !keys.insert(parsed.get_ref<const std::string&>()).second) {
      twice = parsed.get_ref<const std::string&>();
    }
    return true;
  };
  Json json = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (json.is_discarded()) return data_loss(where + " is not valid JSON");
  if (!json.is_object()) {
    return data_loss(
        concat_message(where, " holds a JSON ", json.type_name(), "; expected an object"));
  }
  if (twice) {
    return data_loss(concat_message(where, " has the key ", printable(*twice), " twice"));
  }
  return json;
}

const nlohmann::json* JsonReader::find(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

Status JsonReader::wrong_type(const char* key, const char* expected,
                              const nlohmann::json& found) const {
  std::string text = found.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  return invalid_argument(
      concat_message(where_, ": ", key, " must be ", expected, ", found ", printable(text)));
}

Status JsonReader::read(const char* key, int64_t* value) const {
  const Json* found = find(key);
  if (found == nullptr) return {};
  if (found->is_number_integer()) {
    if (found->is_number_unsigned() && found->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
      return wrong_type(key, "an integer below 2^63", *found);
    }
    *value = found->get<int64_t>();
    return {};
  }
  // Some writers put 32768.0.
  const double number = found->is_number_float() ? found->get<double>() : 0.5;
  if (number != std::floor(number) || std::abs(number) > 1e15) {
    return wrong_type(key, "an integer", *found);
  }
  *value = static_cast<int64_t>(number);
  return {};
}

Status JsonReader::read(const char* key, double* value) const {
  const Json* found = find(key);
  if (found == nullptr) return {};
  if (!found->is_number()) return wrong_type(key, "a number", *found);
  *value = found->get<double>();
  return {};
}

Status JsonReader::read(const char* key, bool* value) const {
  const Json* found = find(key);
  if (found == nullptr) return {};
  if (!found->is_boolean()) return wrong_type(key, "true or false", *found);
  *value = found->get<bool>();
  return {};
}

Status JsonReader::read(const char* key, std::string* value) const {
  const Json* found = find(key);
  if (found == nullptr) return {};
  if (!found->is_string()) return wrong_type(key, "a string", *found);
  *value = found->get_ref<const std::string&>();
  return {};
}

Status JsonReader::require(const char* key, int64_t* value) const {
  if (!has(key)) {
    return invalid_argument(concat_message(where_, ": ", key, " is missing; expected an integer"));
  }
  return read(key, value);
}

Status JsonReader::read_list(const char* key, std::vector<int64_t>* values) const {
  const Json* found = find(key);
  if (found == nullptr) return {};
  values->clear();
  if (!found->is_array()) return read(key, &values->emplace_back());
  for (const Json& element : *found) {
    const bool too_large =
        element.is_number_unsigned() && element.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
    if (!element.is_number_integer() || too_large) {
      return wrong_type(key, "integers below 2^63", *found);
    }
    values->push_back(element.get<int64_t>());
  }
  return {};
}

}  // namespace encore
