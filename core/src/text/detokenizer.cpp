#include "text/detokenizer.h"

namespace encore {

StreamingDetokenizer::StreamingDetokenizer(const Tokenizer& tokenizer, DecodeOptions options)
    : tokenizer_(tokenizer),
      options_(options),
      progress_(tokenizer.parts().decoder.begin(options.continues_text)) {}

std::string StreamingDetokenizer::push(int32_t id) {
  const auto token = tokenizer_.id_to_token(id);
  if (!token || (options_.skip_special && tokenizer_.is_special(id))) return {};
  std::string bytes;
  tokenizer_.parts().decoder.append(*token, progress_, bytes);
  return assembler_.push(bytes);
}

std::string StreamingDetokenizer::finish() {
  progress_ = tokenizer_.parts().decoder.begin(options_.continues_text);
  return assembler_.finish();
}

}  // namespace encore
