// libFuzzer: tokenizer.json and tokenizer_config.json are untrusted. Whatever the bytes, the reader
// answers with a tokenizer or an error, and a tokenizer answers every text. The two files are
// parted by the first zero byte; without one there is no configuration.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view file = input.substr(0, input.find('\0'));
  const std::string_view config = input.substr(file.size() == size ? size : file.size() + 1);
  const auto tokenizer = encore::Tokenizer::from_json(file, config);
  if (!tokenizer.ok()) return 0;
  const std::string_view tail = input.substr(size - size % 256);
  for (const bool parse_special : {false, true}) {
    const auto ids = (*tokenizer)->encode(tail, {.parse_special = parse_special});
    if (ids.ok()) (void)(*tokenizer)->decode(*ids);
  }
  (void)(*tokenizer)->decode(std::vector<int32_t>{0, 1, 2, -1, (*tokenizer)->vocab_size()});
  return 0;
}
