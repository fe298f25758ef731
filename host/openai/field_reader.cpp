#include "openai/field_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "text/utf8.h"

namespace encore {
namespace {

std::string number_text(double value) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

std::string range_text(const FloatRange& range) {
  std::string text = range.above_min ? "a number above " : "a number from ";
  text.append(number_text(range.min));
  text.append(range.above_min ? " and at most " : " to ");
  text.append(number_text(range.max));
  return text;
}

std::string range_text(int64_t min, int64_t max) {
  std::string text = "an integer from ";
  text.append(std::to_string(min)).append(" to ").append(std::to_string(max));
  return text;
}

std::string quote(const std::string& text) {
  constexpr size_t kMaxBytes = 60;
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = utf8_step(text, i);
    if (i + step.length > kMaxBytes) {
      out.append("...");
      break;
    }
    if (step.code_point < 0x20 || step.code_point == 0x7F) {
      out.push_back(' ');
    } else {
      append_utf8(step.code_point, out);
    }
    i += step.length;
  }
  out.push_back('"');
  return out;
}

// The nearest float that is still inside the range.
float to_float(double value, const FloatRange& range) {
  const auto result = static_cast<float>(value);
  if (!range.above_min || result > range.min) return result;
  return std::max(std::numeric_limits<float>::min(),
                  std::nextafter(static_cast<float>(range.min), std::numeric_limits<float>::max()));
}

}  // namespace

std::string describe_value(const BodyJson& value) {
  if (value.is_string()) return quote(value.get_ref<const std::string&>());
  if (value.is_array()) return value.empty() ? "an empty array" : "an array";
  if (value.is_object()) return "an object";
  if (value.is_number_float()) return number_text(value.get<double>());
  return value.dump();  // null, true, false, an integer
}

std::optional<int64_t> to_integer(const BodyJson& value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  if (number != std::floor(number) || std::abs(number) > kExact) return std::nullopt;
  return static_cast<int64_t>(number);
}

std::optional<int32_t> to_token_id(const BodyJson& value, int32_t vocab_size) {
  const std::optional<int64_t> id = to_integer(value);
  if (!id || *id < 0 || *id >= vocab_size) return std::nullopt;
  return static_cast<int32_t>(*id);
}

std::string token_id_text(int32_t vocab_size) {
  return "a token id from 0 to " + std::to_string(vocab_size - 1);
}

const BodyJson* FieldReader::find(std::string_view name) const {
  const auto& members = object_.get_ref<const BodyJson::object_t&>();
  const auto last = std::find_if(members.rbegin(), members.rend(),
                                 [&](const auto& member) { return member.first == name; });
  return last == members.rend() || last->second.is_null() ? nullptr : &last->second;
}

std::string FieldReader::place(std::string_view name) const {
  if (path_.empty()) return std::string(name);
  std::string out = path_;
  out.append(".").append(name);
  return out;
}

void FieldReader::fail(ApiError error) {
  if (!error_) error_ = std::move(error);
}

void FieldReader::fail(std::string message, std::string_view name) {
  fail(bad_request(std::move(message), place(name)));
}

void FieldReader::refuse(std::string_view name, std::string_view expected) {
  const BodyJson* value = find(name);
  if (value == nullptr) {
    fail(place(name).append(" is missing; it must be ").append(expected), name);
  } else {
    refuse_element(name, *value, expected);
  }
}

void FieldReader::refuse_element(std::string_view at, const BodyJson& element,
                                 std::string_view expected) {
  std::string message = place(at);
  message.append(" is ").append(describe_value(element));
  message.append("; it must be ").append(expected);
  fail(std::move(message), at);
}

void FieldReader::read(std::string_view name, bool& out) {
  const BodyJson* value = find(name);
  if (value == nullptr) return;
  if (!value->is_boolean()) return refuse(name, "true or false");
  out = value->get<bool>();
}

void FieldReader::read(std::string_view name, std::string& out) {
  const BodyJson* value = find(name);
  if (value == nullptr) return;
  if (!value->is_string()) return refuse(name, "a string");
  out = value->get_ref<const std::string&>();
}

void FieldReader::read(std::string_view name, int64_t min, int64_t max, int32_t& out) {
  std::optional<int32_t> value;
  read(name, min, max, value);
  if (value) out = *value;
}

void FieldReader::read(std::string_view name, int64_t min, int64_t max,
                       std::optional<int32_t>& out) {
  const BodyJson* value = find(name);
  if (value == nullptr) return;
  const std::optional<int64_t> number = to_integer(*value);
  if (!number || *number < min || *number > max) return refuse(name, range_text(min, max));
  out = static_cast<int32_t>(*number);
}

void FieldReader::read(std::string_view name, const FloatRange& range, std::optional<float>& out) {
  const BodyJson* value = find(name);
  if (value == nullptr) return;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  const bool above = range.above_min ? number > range.min : number >= range.min;
  if (!above || !(number <= range.max)) return refuse(name, range_text(range));
  out = to_float(number, range);
}

void FieldReader::read_seed(std::string_view name, std::optional<uint64_t>& out) {
  const BodyJson* value = find(name);
  if (value == nullptr) return;
  if (value->is_number_unsigned()) {
    out = value->get<uint64_t>();
  } else if (const std::optional<int64_t> number = to_integer(*value)) {
    out = static_cast<uint64_t>(*number);
  } else {
    refuse(name, "an integer of 64 bits");
  }
}

void FieldReader::read_token_ids(std::string_view name, int32_t vocab_size, size_t max_count,
                                 std::vector<int32_t>& out) {
  const BodyJson* value = find(name);
  if (value == nullptr) return;
  if (!value->is_array()) return refuse(name, "an array of token ids");
  if (max_count > 0 && value->size() > max_count) {
    std::string message = place(name);
    message.append(" holds ").append(std::to_string(value->size()));
    message.append(" token ids; the limit is ").append(std::to_string(max_count));
    return fail(std::move(message), name);
  }
  out.clear();
  out.reserve(value->size());
  for (const BodyJson& element : *value) {
    const std::optional<int32_t> id = to_token_id(element, vocab_size);
    if (!id) {
      std::string at(name);
      at.append("[").append(std::to_string(out.size())).append("]");
      return refuse_element(at, element, token_id_text(vocab_size));
    }
    out.push_back(*id);
  }
}

}  // namespace encore
