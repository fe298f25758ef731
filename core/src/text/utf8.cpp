#include "text/utf8.h"

#include <algorithm>

namespace encore {
namespace {

struct Lead {
  uint32_t length;  // of the whole character; 0 if no character starts with this byte
  uint8_t second_min, second_max;
};

Lead classify_lead(uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Step utf8_step(std::string_view text, size_t position) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[position + i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {Utf8Step::Kind::kCharacter, 1, first};
  const Lead lead = classify_lead(first);
  if (lead.length == 0) return {Utf8Step::Kind::kMalformed, 1, 0xFFFD};
  const size_t available = text.size() - position;
  uint32_t code_point = first & (0xFFu >> (lead.length + 1));
  for (uint32_t i = 1; i < lead.length; ++i) {
    if (i >= available) return {Utf8Step::Kind::kCut, i, 0xFFFD};
    const uint8_t low = i == 1 ? lead.second_min : 0x80;
    const uint8_t high = i == 1 ? lead.second_max : 0xBF;
    if (byte(i) < low || byte(i) > high) return {Utf8Step::Kind::kMalformed, i, 0xFFFD};
    code_point = (code_point << 6) | (byte(i) & 0x3Fu);
  }
  return {Utf8Step::Kind::kCharacter, lead.length, code_point};
}

bool is_valid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    if (static_cast<uint8_t>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const Utf8Step step = utf8_step(text, i);
    if (step.kind != Utf8Step::Kind::kCharacter) return false;
    i += step.length;
  }
  return true;
}

std::string replace_malformed_utf8(std::string_view text) {
  Utf8Assembler assembler;
  std::string out = assembler.push(text);
  out += assembler.finish();
  return out;
}

void append_utf8(uint32_t code_point, std::string& out) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

std::string Utf8Assembler::push(std::string_view bytes) {
  std::string joined;
  if (!held_.empty()) {
    joined = held_;
    joined += bytes;
    held_.clear();
    bytes = joined;
  }
  std::string out;
  out.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    const Utf8Step step = utf8_step(bytes, i);
    if (step.kind == Utf8Step::Kind::kCut) {
      held_ = bytes.substr(i);
      break;
    }
    if (step.kind == Utf8Step::Kind::kCharacter) {
      out.append(bytes.substr(i, step.length));
    } else {
      out.append(kReplacementCharacter);
    }
    i += step.length;
  }
  return out;
}

std::string Utf8Assembler::finish() {
  if (held_.empty()) return {};
  held_.clear();
  return std::string(kReplacementCharacter);
}

}  // namespace encore
