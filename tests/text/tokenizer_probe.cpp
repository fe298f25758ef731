// Answers tokenizer requests on stdin, for tests that compare with Python libraries.
//
//   tokenizer_probe json TOKENIZER_JSON [TOKENIZER_CONFIG_JSON]
//   tokenizer_probe gguf FILE
//
// A request is an op byte, a flags byte, a 32-bit count, and that many bytes; an answer is a 32-bit
// count and that many elements; all little endian. A count of -1 says that bytes with an error
// message follow, themselves counted.
//   'e'  encode the bytes; flags 1 add_special, 2 parse_special    answer: int32 ids
//   'd'  decode int32 ids; flags 1 skip_special                    answer: bytes
//   's'  the same through StreamingDetokenizer                     answer: bytes
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "model/gguf.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace {

std::string read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

encore::Result<std::unique_ptr<encore::Tokenizer>> load(int argc, char** argv) {
  if (argc >= 3 && std::strcmp(argv[1], "gguf") == 0) {
    ENCORE_ASSIGN_OR_RETURN(const encore::GgufFiles files, encore::open_gguf(argv[2]));
    const auto start = std::chrono::steady_clock::now();
    auto tokenizer = encore::Tokenizer::from_gguf(files.metadata);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    std::fprintf(stderr, "from_gguf took %.1f ms\n", took.count());
    return tokenizer;
  }
  if (argc < 3) return encore::invalid_argument("usage: tokenizer_probe json|gguf FILE [CONFIG]");
  return encore::Tokenizer::from_json(read_file(argv[2]), argc > 3 ? read_file(argv[3]) : "");
}

bool read_exactly(void* out, size_t count) { return std::fread(out, 1, count, stdin) == count; }

void answer(const void* data, size_t count, size_t element_bytes) {
  const auto count32 = static_cast<int32_t>(count);
  std::fwrite(&count32, sizeof count32, 1, stdout);
  if (count > 0) std::fwrite(data, element_bytes, count, stdout);  // data may be null without
}

void answer_error(const encore::Status& status) {
  const int32_t failed = -1;
  std::fwrite(&failed, sizeof failed, 1, stdout);
  const std::string text = status.to_string();
  answer(text.data(), text.size(), 1);
}

std::vector<int32_t> as_ids(const std::string& bytes) {
  std::vector<int32_t> ids(bytes.size() / sizeof(int32_t));
  if (!ids.empty()) std::memcpy(ids.data(), bytes.data(), ids.size() * sizeof(int32_t));
  return ids;
}

std::string stream(const encore::Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                   encore::DecodeOptions options) {
  encore::StreamingDetokenizer detokenizer(tokenizer, options);
  std::string text;
  for (const int32_t id : ids) text += detokenizer.push(id);
  return text += detokenizer.finish();
}

void serve(const encore::Tokenizer& tokenizer, char op, uint8_t flags, const std::string& bytes) {
  if (op == 'e') {
    encore::EncodeOptions options;
    options.add_special = (flags & 1) != 0;
    options.parse_special = (flags & 2) != 0;
    const auto ids = tokenizer.encode(bytes, options);
    if (!ids.ok()) return answer_error(ids.status());
    return answer(ids->data(), ids->size(), sizeof(int32_t));
  }
  encore::DecodeOptions options;
  options.skip_special = (flags & 1) != 0;
  const std::string text = op == 's' ? stream(tokenizer, as_ids(bytes), options)
                                     : tokenizer.decode(as_ids(bytes), options);
  answer(text.data(), text.size(), 1);
}

}  // namespace

int main(int argc, char** argv) {
  const auto tokenizer = load(argc, argv);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.status().to_string().c_str());
    return 1;
  }
  char head[2];
  uint32_t count = 0;
  std::string bytes;
  while (read_exactly(head, 2) && read_exactly(&count, sizeof count)) {
    bytes.resize(count);
    if (!read_exactly(bytes.data(), count)) return 1;
    serve(**tokenizer, head[0], static_cast<uint8_t>(head[1]), bytes);
    std::fflush(stdout);
  }
  return 0;
}
