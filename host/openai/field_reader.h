// Typed values out of an untrusted object.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "openai/api_error.h"
#include "openai/json_body.h"

namespace encore {

struct FloatRange {
  double min = 0.0;
  double max = 0.0;
  bool above_min = false;  // min itself is outside
};

// What a value is, for a message: `"warm"`, `3.5`, `an array`. One short line of valid UTF-8.
std::string describe_value(const BodyJson& value);

// The value as an integer: 3 and 3.0 are, 3.5, "3" and what exceeds 2^53 as a fraction are not.
std::optional<int64_t> to_integer(const BodyJson& value);

// An id below `vocab_size`, or nothing.
std::optional<int32_t> to_token_id(const BodyJson& value, int32_t vocab_size);
// "a token id from 0 to 511"
std::string token_id_text(int32_t vocab_size);

// Reads the fields of one object. A field that is absent or null leaves its target as it is. The
// first field that is wrong makes the error; reads after it do nothing.
// Borrows the object. One thread at a time.
class FieldReader {
 public:
  // REQUIRES: object.is_object(). `path` names it in messages ("messages[2]"); empty for the body.
  explicit FieldReader(const BodyJson& object, std::string path = {})
      : object_(object), path_(std::move(path)) {}

  // The last field of that name, or null if there is none or it is null.
  const BodyJson* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }

  void read(std::string_view name, bool& out);
  void read(std::string_view name, std::string& out);
  void read(std::string_view name, int64_t min, int64_t max, int32_t& out);
  void read(std::string_view name, int64_t min, int64_t max, std::optional<int32_t>& out);
  void read(std::string_view name, const FloatRange& range, std::optional<float>& out);
  // Any 64-bit integer, signed or not; -1 is 2^64 - 1.
  void read_seed(std::string_view name, std::optional<uint64_t>& out);
  // An array of ids, possibly empty; at most `max_count` if that is not 0.
  void read_token_ids(std::string_view name, int32_t vocab_size, size_t max_count,
                      std::vector<int32_t>& out);

  // "NAME is VALUE; it must be EXPECTED", where VALUE is the field's or that of `element`, whose
  // place is then the name.
  void refuse(std::string_view name, std::string_view expected);
  void refuse_element(std::string_view place, const BodyJson& element, std::string_view expected);
  void fail(std::string message, std::string_view name);
  void fail(ApiError error);

  // "messages[2].role"
  std::string place(std::string_view name) const;

  bool ok() const { return !error_.has_value(); }
  const std::optional<ApiError>& error() const { return error_; }

 private:
  const BodyJson& object_;
  std::string path_;
  std::optional<ApiError> error_;
};

}  // namespace encore
