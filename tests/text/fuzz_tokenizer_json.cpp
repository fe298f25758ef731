// libFuzzer: tokenizer.json is untrusted. Whatever the bytes, the reader answers with a tokenizer
// or an error, and a tokenizer answers every text.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = encore::Tokenizer::from_json(file, "");
  if (!tokenizer.ok()) return 0;
  const std::string_view tail = file.substr(size - size % 256);
  for (const bool parse_special : {false, true}) {
    const auto ids = (*tokenizer)->encode(tail, {.parse_special = parse_special});
    if (ids.ok()) (void)(*tokenizer)->decode(*ids);
  }
  (void)(*tokenizer)->decode(std::vector<int32_t>{0, 1, 2, -1, (*tokenizer)->vocab_size()});
  return 0;
}
