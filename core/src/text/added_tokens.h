// Tokens that are found in text before byte-pair encoding sees it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "encore/status.h"
#include "text/normalizer.h"
#include "text/regex.h"
#include "text/vocabulary.h"

namespace encore {

struct AddedToken {
  int32_t id = kNoToken;
  std::string text;
  bool single_word = false;  // not inside a word
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool normalized = false;   // looked for after normalization, not before
  bool special = false;      // left out by decode(skip_special)

  // Whether text must not become this token unless the caller asks: special tokens, and those
  // spelled as markers, <|...|> or <U+FF5C...U+FF5C>, which some models fail to declare special.
  bool is_control() const;
};

// A stretch of text that is a given token, whatever the options say.
struct ForcedToken {
  ByteRange range;
  int32_t id;
};

// A part of a text: a token, or text in between (id is kNoToken).
struct TextPart {
  ByteRange range;
  int32_t id;
};

// Immutable after build(); any thread.
class AddedTokens {
 public:
  AddedTokens() = default;

  // Of several tokens with one text, the first counts; a token without text is left out.
  // Errors: kDataLoss for an id below 0 or at or above Vocabulary::kMaxTokens; those of
  // Normalizer::apply.
  static Result<AddedTokens> build(std::vector<AddedToken> tokens, const Normalizer& normalizer);

  // Cuts `text` into `parts` that cover it. Takes the leftmost token, of those that start together
  // the longest; a token that its flags rule out is text, whole. White space that a token strips
  // after itself may also be a token, whose part then overlaps.
  //   normalized     which of the two kinds of token to look for
  //   match_control  whether control tokens are found, or left as text
  //   forced         sorted, disjoint; nothing else is matched across their edges
  void split(std::string_view text, bool normalized, bool match_control,
             std::span<const ForcedToken> forced, std::vector<TextPart>& parts) const;

  const AddedToken* by_id(int32_t id) const;
  const AddedToken* by_text(std::string_view text) const;

  const std::vector<AddedToken>& tokens() const { return tokens_; }  // sorted by id
  // Bytes, of the tokens' texts and of what is looked for in their place after normalization.
  int64_t longest_text() const;

 private:
  // The patterns of one kind, sorted by text, so that a prefix is a range of them.
  struct Matcher {
    struct Pattern {
      std::string text;
      uint32_t token;  // index into tokens_
    };
    std::vector<Pattern> patterns;
    uint32_t first[257] = {};  // patterns that start with byte b: first[b]..first[b + 1]

    void index();
    const Pattern* longest_at(std::string_view text, size_t position) const;
  };

  std::vector<AddedToken> tokens_;
  std::vector<uint32_t> by_text_;  // indices into tokens_, sorted by text
  Matcher raw_, normalized_;
};

}  // namespace encore
