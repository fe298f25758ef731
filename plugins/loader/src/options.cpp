#include "encore/loader/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string_view>

namespace encore {
namespace {

// Single-character insertions, deletions and substitutions from `a` to `b` (Levenshtein).
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

Status unknown_key(std::span<const OptionSchema> schema, const std::string& key) {
  std::string message = "backend option '" + key + "' is unknown";
  if (schema.empty()) return invalid_argument(message + "; this backend has no options");
  constexpr size_t kLongestCompared = 128;
  const auto distance = [&](const OptionSchema& option) {
    return edit_distance(std::string_view(key).substr(0, kLongestCompared),
                         std::string_view(option.key).substr(0, kLongestCompared));
  };
  const auto nearest =
      std::min_element(schema.begin(), schema.end(),
                       [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  return invalid_argument(message + "; the nearest known key is '" + nearest->key + "'");
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ", ";
    text += word;
  }
  return text;
}

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The whole of `text` as a number.
template <typename Number>
bool parse(const std::string& text, Number* number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && stop == end;
}

std::string format_number(double number) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), number);
  return error == std::errc() ? std::string(buffer, end) : std::string("?");
}

Status wrong(const OptionSchema& option, const std::string& value, const std::string& expected) {
  return invalid_argument("backend option '" + option.key + "' is '" + value + "'; it must be " +
                          expected);
}

std::string range_text(const OptionSchema& option) {
  if (option.minimum > option.maximum) return {};
  return " from " + format_number(option.minimum) + " to " + format_number(option.maximum);
}

Status check_number(const OptionSchema& option, const std::string& value) {
  const bool is_int = option.type == OptionType::kInt;
  std::string expected = (is_int ? "a whole number" : "a number") + range_text(option);
  if (!option.choices.empty()) expected += " or one of: " + join(option.choices);
  double number = 0.0;
  if (is_int) {
    int64_t whole = 0;
    if (!parse(value, &whole)) return wrong(option, value, expected);
    number = static_cast<double>(whole);
  } else if (!parse(value, &number) || !std::isfinite(number)) {
    return wrong(option, value, expected);
  }
  const bool limited = option.minimum <= option.maximum;
  if (limited && (number < option.minimum || number > option.maximum)) {
    return wrong(option, value, expected);
  }
  return {};
}

Status check_value(const OptionSchema& option, const std::string& value) {
  switch (option.type) {
    case OptionType::kInt:
    case OptionType::kFloat:
      return contains(option.choices, value) ? Status() : check_number(option, value);
    case OptionType::kBool:
      if (value == "true" || value == "false") return {};
      return wrong(option, value, "true or false");
    case OptionType::kEnum:
      if (contains(option.choices, value)) return {};
      return wrong(option, value, "one of: " + join(option.choices));
    case OptionType::kString:
      return {};
  }
  return internal_error("backend option '" + option.key + "' has an unknown type");
}

}  // namespace

Result<OptionValues> check_options(std::span<const OptionSchema> schema,
                                   std::span<const std::pair<std::string, std::string>> given) {
  OptionValues values;
  for (const OptionSchema& option : schema) values.emplace_back(option.key, option.default_value);
  std::vector<bool> seen(schema.size(), false);
  for (const auto& [key, value] : given) {
    const auto option = std::find_if(schema.begin(), schema.end(),
                                     [&k = key](const auto& entry) { return entry.key == k; });
    if (option == schema.end()) return unknown_key(schema, key);
    const auto index = static_cast<size_t>(option - schema.begin());
    if (seen[index]) return invalid_argument("backend option '" + key + "' is given twice");
    seen[index] = true;
    ENCORE_RETURN_IF_ERROR(check_value(*option, value));
    values[index].second = value;
  }
  return values;
}

}  // namespace encore
