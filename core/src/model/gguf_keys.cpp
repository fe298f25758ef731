#include "model/gguf_keys.h"

#include "model/printable.h"

namespace encore {

Status GgufKeys::wrong_type(const char* key, const char* expected) const {
  return invalid_argument(
      concat_message(where_, ": key ", printable(name(key)), " must be ", expected));
}

Status GgufKeys::read(const char* key, int64_t* value) const {
  const auto found = metadata_.find(name(key));
  if (found == metadata_.end()) return {};
  if (const auto* number = std::get_if<int64_t>(&found->second)) {
    *value = *number;
    return {};
  }
  const auto* number = std::get_if<uint64_t>(&found->second);
  if (number == nullptr || *number > static_cast<uint64_t>(INT64_MAX)) {
    return wrong_type(key, "one integer below 2^63");
  }
  *value = static_cast<int64_t>(*number);
  return {};
}

Status GgufKeys::read(const char* key, double* value) const {
  const auto found = metadata_.find(name(key));
  if (found == metadata_.end()) return {};
  const auto* number = std::get_if<double>(&found->second);
  if (number == nullptr) return wrong_type(key, "one floating-point number");
  *value = *number;
  return {};
}

Status GgufKeys::read(const char* key, std::string* value) const {
  const auto found = metadata_.find(name(key));
  if (found == metadata_.end()) return {};
  const auto* text = std::get_if<std::string>(&found->second);
  if (text == nullptr) return wrong_type(key, "a string");
  *value = *text;
  return {};
}

Status GgufKeys::require(const char* key, int64_t* value) const {
  if (!has(key)) {
    return invalid_argument(
        concat_message(where_, ": key ", printable(name(key)), " is missing; expected an integer"));
  }
  return read(key, value);
}

}  // namespace encore
