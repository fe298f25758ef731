// YAML text as a small tree that remembers where everything was written.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "encore/status.h"

namespace encore {

inline constexpr size_t kMaxConfigBytes = size_t{1} << 20;
inline constexpr int kMaxYamlDepth = 16;
inline constexpr size_t kMaxYamlNodes = 20'000;

struct YamlEntry;

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  int line = 0;                    // from 1; 0 if it did not come from a file
  bool quoted = false;             // scalar in quotes or a text block: text, never a number
  std::string text;                // scalar
  std::vector<YamlNode> items;     // list
  std::vector<YamlEntry> entries;  // map, in order; keys are distinct scalars
};

struct YamlEntry {
  YamlNode key;
  YamlNode value;
};

// `text` in double quotes for a message: cut to 60 bytes, control bytes as '?'.
std::string quoted_for_message(std::string_view text);

// Parses one document of a deliberately plain YAML: no aliases, anchors, tags or second document,
// at most kMaxYamlDepth levels, kMaxYamlNodes values and kMaxConfigBytes bytes. Empty text is
// a kNull node.
//   name   stands for the file in messages: "NAME:LINE: ..."
// Errors: kInvalidArgument, naming the line, for everything that is not that.
Result<YamlNode> parse_yaml(std::string_view text, const std::string& name);

}  // namespace encore
