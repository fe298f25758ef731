#include "model/printable.h"

namespace encore {
namespace {

constexpr size_t kMaxBytes = 96;
constexpr std::string_view kDigits = "0123456789abcdef";

}  // namespace

std::string printable(std::string_view name) {
  std::string text = "'";
  for (const char c : name.substr(0, kMaxBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F) {
      text += c;
    } else {
      text += "\\x";
      text += kDigits[byte >> 4];
      text += kDigits[byte & 15];
    }
  }
  if (name.size() > kMaxBytes) text += "...";
  text += '\'';
  return text;
}

std::string printable_shape(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  text += ']';
  return text;
}

}  // namespace encore
