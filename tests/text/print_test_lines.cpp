// Writes the test lines to stdout, each after its size as a 32-bit little-endian number, for
// make_tokenizer_goldens.py.
#include <cstdint>
#include <cstdio>

#include "test_lines.h"

int main() {
  for (const std::string& line : encore::make_test_lines()) {
    const auto size = static_cast<uint32_t>(line.size());
    std::fwrite(&size, sizeof size, 1, stdout);
    std::fwrite(line.data(), 1, line.size(), stdout);
  }
  return 0;
}
