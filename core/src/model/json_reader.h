// JSON files from model directories, read within limits and without exceptions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "encore/status.h"

namespace encore {

// The text of a file of at most `max_bytes`.
Result<std::string> read_text_file(const std::string& path, int64_t max_bytes);

// Parses an object of at most 64 levels. A key that stands twice in the outermost object is an
// error, since readers disagree on which one counts.
// Errors: kDataLoss, naming `where`.
Result<nlohmann::json> parse_json_object(std::string_view text, const std::string& where);

// Takes typed values out of one object. A key that is absent or null leaves the target as it is;
// one of another type is kInvalidArgument, naming file, key, expected and found.
// Borrows the object.
class JsonReader {
 public:
  JsonReader(const nlohmann::json& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  const nlohmann::json& object() const { return object_; }

  // The value, or null if it is absent or null.
  const nlohmann::json* find(const char* key) const;
  bool has(const char* key) const { return find(key) != nullptr; }

  Status read(const char* key, int64_t* value) const;
  Status read(const char* key, double* value) const;
  Status read(const char* key, bool* value) const;
  Status read(const char* key, std::string* value) const;

  template <typename T>
  Status read(const char* key, std::optional<T>* value) const {
    if (!has(key)) return {};
    return read(key, &value->emplace());
  }

  // As read(), but absent is kInvalidArgument too.
  Status require(const char* key, int64_t* value) const;

  // One integer or a list of them.
  Status read_list(const char* key, std::vector<int64_t>* values) const;

 private:
  Status wrong_type(const char* key, const char* expected, const nlohmann::json& found) const;

  const nlohmann::json& object_;
  std::string where_;
};

}  // namespace encore
