#include "text_assets.h"

#include <string>

#include "text/detokenizer.h"

namespace encore {
namespace {

class ReplyText : public TokenText {
 public:
  ReplyText(const Tokenizer& tokenizer, const DecodeOptions& options)
      : detokenizer_(tokenizer, options) {}

  std::string push(int32_t id) override { return detokenizer_.push(id); }
  std::string finish() override { return detokenizer_.finish(); }

 private:
  StreamingDetokenizer detokenizer_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_tokenizer(const TextAssets& assets) {
  if (!assets.tokenizer_json.empty()) {
    return Tokenizer::from_json(assets.tokenizer_json, assets.tokenizer_config_json);
  }
  if (!assets.gguf.empty()) return Tokenizer::from_gguf(assets.gguf);
  return not_found("the model has no tokenizer: neither tokenizer.json nor GGUF metadata");
}

TokenTextFactory text_factory(const Tokenizer& tokenizer, const DecodeOptions& options) {
  return [&tokenizer, options] { return std::make_unique<ReplyText>(tokenizer, options); };
}

}  // namespace encore
