// Text to token ids and back, as a model's own tokenizer does it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "encore/status.h"
#include "model/gguf_value.h"
#include "text/added_tokens.h"
#include "text/bpe_model.h"
#include "text/encode_bounds.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/token_decoder.h"

namespace encore {

// The policy on control tokens (beginning and end of text, turn markers: AddedToken::is_control):
// text never becomes one unless the caller asks. With parse_special = false, control tokens in the
// text are ordinary text, split and merged like any other; added tokens that are not control
// (<think>, <tool_call>, runs of spaces) still match. With parse_special = true, encode() equals
// encode() of the tokenizers library. Prompts from a chat template go through encode_prompt().
struct EncodeOptions {
  bool add_special = true;     // what the model's post-processor puts around a text, such as BOS
  bool parse_special = false;  // control tokens spelled in the text become those tokens
};

struct DecodeOptions {
  bool skip_special = true;     // leave out tokens declared special
  bool continues_text = false;  // the text goes on after other text: keep a leading space that the
                                // tokenizer would strip from the start of a text
};

// A rendered chat prompt: text, and where the template itself wrote control tokens.
struct PromptText {
  std::string text;                // valid UTF-8
  std::vector<ByteRange> control;  // sorted, disjoint, each exactly one control token's text
  bool parse_special = false;      // also parse control tokens that other text spells
};

// Everything a tokenizer is made of, as a reader of some file format found it.
struct TokenizerParts {
  BpeModel model;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  TokenDecoder decoder;
  AddedTokens added;
  std::vector<int32_t> prefix, suffix;  // ids that add_special puts around a text
  int32_t bos = kNoToken;
  int32_t eos = kNoToken;
  // Names and texts a chat template may use: "bos_token", "eos_token", ...
  std::vector<std::pair<std::string, std::string>> special_texts;
  std::string chat_template;  // Jinja source; empty if the file has none
};

// Immutable after construction; any thread may use one, at once. Readers copy what they need from
// their arguments.
class Tokenizer {
 public:
  // From Hugging Face's tokenizer.json and, unless empty, tokenizer_config.json (names of special
  // tokens, chat template; not add_bos_token and add_eos_token, as in transformers 5).
  // Errors: kDataLoss for malformed files; kUnimplemented, naming the component, for one that
  // Encore does not know.
  static Result<std::unique_ptr<Tokenizer>> from_json(std::string_view tokenizer_json,
                                                      std::string_view tokenizer_config_json);

  // From the tokenizer.* keys of a GGUF file.
  // Errors: as from_json; kNotFound for a missing key.
  static Result<std::unique_ptr<Tokenizer>> from_gguf(const GgufMetadata& metadata);

  explicit Tokenizer(TokenizerParts parts);

  // Malformed UTF-8 counts as U+FFFD, one for each maximal subpart. Beyond bounds.max_ids, ids may
  // be missing at the end.
  // Errors: kInvalidArgument for a text over 1 GiB, or one that drives a pattern past its limit or
  // the tokenizer's rules past their TextBudget; kCancelled if bounds.abandoned() said so.
  Result<std::vector<int32_t>> encode(std::string_view text, EncodeOptions options = {},
                                      const EncodeBounds& bounds = {}) const;

  // Encodes a rendered prompt. Adds nothing around it: the template wrote its own BOS, if any.
  // Errors: as encode(); kInvalidArgument if the text is not valid UTF-8 or a control range is not
  // an added token's text.
  Result<std::vector<int32_t>> encode_prompt(const PromptText& prompt,
                                             const EncodeBounds& bounds = {}) const;

  // Every text of so many bytes has at least so many ids, unless it consists of control or
  // unassigned characters; 0 if nothing can be said.
  int64_t least_ids(int64_t text_bytes) const;

  // Ids outside the vocabulary decode to nothing. Malformed UTF-8 becomes U+FFFD, one for each
  // maximal subpart. Equals the tokenizers library's decode() whenever the bytes are well-formed.
  std::string decode(std::span<const int32_t> ids, DecodeOptions options = {}) const;

  // One more than the largest id.
  int32_t vocab_size() const;

  int32_t bos() const { return parts_.bos; }  // kNoToken (-1) if there is none
  int32_t eos() const { return parts_.eos; }

  // The token whose spelling is exactly `text`: an added token first, then the model's.
  std::optional<int32_t> token_to_id(std::string_view text) const;
  // The spelling of `id` in the vocabulary, not the text it decodes to. Valid while the tokenizer.
  std::optional<std::string_view> id_to_token(int32_t id) const;

  bool is_control(int32_t id) const;  // see EncodeOptions
  bool is_special(int32_t id) const;  // decode(skip_special) leaves it out

  const TokenizerParts& parts() const { return parts_; }

 private:
  // What an encoding has come to, and when it may end.
  struct Progress {
    explicit Progress(const EncodeBounds& bounds) : max_ids(bounds.max_ids), abandoned(bounds) {}

    bool may_end() { return std::ssize(ids) > max_ids || abandoned(); }

    std::vector<int32_t> ids;
    const int64_t max_ids;
    AbandonCheck abandoned;
  };

  Status append_text(std::string_view text, bool match_control, std::span<const ForcedToken> forced,
                     Progress& progress) const;
  Status append_piece(std::string_view piece, bool at_start, bool match_control, TextBudget& budget,
                      Progress& progress) const;

  TokenizerParts parts_;
  int64_t max_bytes_per_id_;
};

}  // namespace encore
