// A GGUF file's key-value section, in memory.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace encore {

// Unsigned integers of any width become uint64_t, signed ones int64_t, both floats double. An array
// of integers (or booleans) becomes int64_t, of floats double.
using GgufValue = std::variant<uint64_t, int64_t, double, bool, std::string,
                               std::vector<std::string>, std::vector<int64_t>, std::vector<double>>;

using GgufMetadata = std::map<std::string, GgufValue, std::less<>>;

// The value under `key` if it is there and of type T, else null.
template <typename T>
const T* gguf_find(const GgufMetadata& metadata, std::string_view key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? nullptr : std::get_if<T>(&found->second);
}

}  // namespace encore
