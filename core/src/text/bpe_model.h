// Byte-pair encoding: from one word's text to token ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "encore/status.h"
#include "text/encode_bounds.h"
#include "text/vocabulary.h"

namespace encore {

// How a word becomes its first symbols, and what happens to characters outside the vocabulary.
struct BpeOptions {
  bool byte_level = false;     // a word is bytes, each spelled as GPT-2's stand-in character
  bool byte_fallback = false;  // unknown characters become <0xNN> tokens, where all exist
  bool fuse_unk = false;       // neighbouring unknown characters become one unk token
  bool ignore_merges = false;  // a word that is itself a token needs no merges
  int32_t unk_id = kNoToken;   // without one, unknown characters are dropped
};

// Immutable after construction; any thread may encode.
class BpeModel {
 public:
  BpeModel() = default;

  // Merges by rank: the i-th of `merges`, texts of the left and right token, has rank i. A pair
  // that comes again takes the later rank.
  // Errors: kDataLoss if a side or the joined text is not in the vocabulary.
  static Result<BpeModel> with_merges(
      Vocabulary vocabulary,
      const std::vector<std::pair<std::string_view, std::string_view>>& merges,
      const BpeOptions& options);

  // Merges by score, as SentencePiece does: any two neighbours whose joined text is a token may
  // merge, the highest score first. `scores` [vocabulary size]; `mergeable` [vocabulary size] says
  // which tokens text may become.
  static Result<BpeModel> with_scores(Vocabulary vocabulary, const std::vector<float>& scores,
                                      std::vector<bool> mergeable, const BpeOptions& options);

  // Appends the ids of one word. Merges take the best rank first, and the leftmost of equals.
  // Takes O(n log n) for n characters. Once `abandoned` says so, ids may be missing.
  // REQUIRES: `word` is valid UTF-8, shorter than 2 GiB.
  void encode(std::string_view word, AbandonCheck& abandoned, std::vector<int32_t>& ids) const;

  // Bytes of a word for each of its ids, at most; 0 if there is no limit, because characters
  // outside the vocabulary are dropped, or fused into one id. A word of control or unassigned
  // characters may have more: vocabularies of bytes lack some that nothing else has.
  int64_t max_bytes_per_id() const;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  struct Merge {
    uint32_t rank;
    int32_t id;  // kNoToken if the two do not merge
  };
  struct Symbol {
    int32_t id;
    uint32_t begin, end;  // bytes of the word; equal for a symbol that scores must not merge
    int32_t previous, next;
  };

  void prepare();
  void first_symbols(std::string_view word, std::vector<Symbol>& symbols) const;
  bool append_byte_tokens(std::string_view character, uint32_t begin,
                          std::vector<Symbol>& symbols) const;
  int32_t character_id(std::string_view character) const;
  Merge find_merge(const Symbol& left, const Symbol& right, std::string_view word) const;
  Merge find_pair(int32_t left, int32_t right) const;
  void merge_short(std::string_view word, std::vector<Symbol>& symbols) const;
  void merge_long(std::string_view word, AbandonCheck& abandoned,
                  std::vector<Symbol>& symbols) const;

  Vocabulary vocabulary_;
  BpeOptions options_;
  int32_t byte_ids_[256];  // first symbol of a byte (byte level) or of an ASCII character
  int32_t fallback_ids_[256];

  // By rank: merge i joins left_[i] and right_[i] into joined_[i]; pair_table_ maps the pair to i.
  std::vector<int32_t> left_, right_, joined_;
  std::vector<uint32_t> pair_table_;
  uint64_t seed_ = 0;

  // By score: order_[id] is smaller for a higher score.
  std::vector<uint32_t> order_;
  std::vector<bool> mergeable_;
};

}  // namespace encore
