#include "text/bpe_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "text/byte_alphabet.h"
#include "text/hash.h"
#include "text/utf8.h"

namespace encore {
namespace {

constexpr uint32_t kEmptySlot = std::numeric_limits<uint32_t>::max();
constexpr std::string_view kHexDigits = "0123456789ABCDEF";
constexpr int64_t kMaxUtf8Bytes = 4;
constexpr size_t kShortWord = 24;  // symbols; up to here a scan beats a heap

std::string byte_token(uint32_t byte) {
  std::string text = "<0x";
  text.push_back(kHexDigits[byte >> 4]);
  text.push_back(kHexDigits[byte & 15]);
  text.push_back('>');
  return text;
}

// Whether any character has the byte that is assigned and no control character.
bool is_of_text(int32_t byte) {
  if (byte < 0x20) return byte == '\t' || byte == '\n' || byte == '\r';
  return byte != 0x7F && byte != 0xC0 && byte != 0xC1 && byte != 0xF1 && byte != 0xF2 &&
         byte <= 0xF4;
}

uint64_t pair_hash(uint64_t seed, int32_t left, int32_t right) {
  const uint64_t pair =
      (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
  const uint64_t state = mix_hash(seed, pair);
  return state ^ (state >> 32);
}

}  // namespace

Result<BpeModel> BpeModel::with_merges(
    Vocabulary vocabulary, const std::vector<std::pair<std::string_view, std::string_view>>& merges,
    const BpeOptions& options) {
  BpeModel model;
  model.vocabulary_ = std::move(vocabulary);
  model.options_ = options;
  model.prepare();
  model.left_.reserve(merges.size());
  model.right_.reserve(merges.size());
  model.joined_.reserve(merges.size());
  model.pair_table_.assign(std::bit_ceil(merges.size() * 3 / 2 + 2), kEmptySlot);
  const size_t mask = model.pair_table_.size() - 1;
  std::string text;
  for (const auto& [left_text, right_text] : merges) {
    text.assign(left_text).append(right_text);
    const int32_t left = model.vocabulary_.find(left_text);
    const int32_t right = model.vocabulary_.find(right_text);
    const int32_t joined = model.vocabulary_.find(text);
    if (left == kNoToken || right == kNoToken || joined == kNoToken) {
      return data_loss("tokenizer: merge " + std::to_string(model.left_.size()) + " joins \"" +
                       std::string(left_text) + "\" and \"" + std::string(right_text) +
                       "\", but the vocabulary lacks a side or the result");
    }
    size_t slot = pair_hash(model.seed_, left, right) & mask;
    for (; model.pair_table_[slot] != kEmptySlot; slot = (slot + 1) & mask) {
      const uint32_t rank = model.pair_table_[slot];
      if (model.left_[rank] == left && model.right_[rank] == right) break;
    }
    model.pair_table_[slot] = static_cast<uint32_t>(model.left_.size());
    model.left_.push_back(left);
    model.right_.push_back(right);
    model.joined_.push_back(joined);
  }
  return model;
}

Result<BpeModel> BpeModel::with_scores(Vocabulary vocabulary, const std::vector<float>& scores,
                                       std::vector<bool> mergeable, const BpeOptions& options) {
  const auto size = static_cast<size_t>(vocabulary.size());
  if (scores.size() != size || mergeable.size() != size) {
    return data_loss("tokenizer: " + std::to_string(scores.size()) + " scores for " +
                     std::to_string(size) + " tokens");
  }
  BpeModel model;
  model.vocabulary_ = std::move(vocabulary);
  model.options_ = options;
  model.mergeable_ = std::move(mergeable);
  model.prepare();
  std::vector<int32_t> by_score(size);
  std::iota(by_score.begin(), by_score.end(), 0);
  std::stable_sort(by_score.begin(), by_score.end(),
                   [&](int32_t a, int32_t b) { return scores[a] > scores[b]; });
  model.order_.resize(size);
  uint32_t order = 0;
  for (size_t i = 0; i < size; ++i) {
    if (i > 0 && scores[by_score[i]] < scores[by_score[i - 1]]) ++order;  // equal scores tie
    model.order_[by_score[i]] = order;
  }
  return model;
}

void BpeModel::prepare() {
  seed_ = process_hash_seed();
  std::string text;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    text.clear();
    append_utf8(options_.byte_level ? kByteAlphabet[byte] : byte, text);
    byte_ids_[byte] = vocabulary_.find(text);
    fallback_ids_[byte] = vocabulary_.find(byte_token(byte));
  }
}

int32_t BpeModel::character_id(std::string_view character) const {
  if (character.size() == 1) return byte_ids_[static_cast<uint8_t>(character[0])];
  return vocabulary_.find(character);
}

bool BpeModel::append_byte_tokens(std::string_view character, uint32_t begin,
                                  std::vector<Symbol>& symbols) const {
  for (const char c : character) {
    if (fallback_ids_[static_cast<uint8_t>(c)] == kNoToken) return false;
  }
  for (const char c : character) {
    symbols.push_back({fallback_ids_[static_cast<uint8_t>(c)], begin, begin, 0, 0});
  }
  return true;
}

void BpeModel::first_symbols(std::string_view word, std::vector<Symbol>& symbols) const {
  int32_t pending_unk = kNoToken;
  for (size_t i = 0; i < word.size();) {
    const uint32_t length = options_.byte_level ? 1 : utf8_step(word, i).length;
    const auto begin = static_cast<uint32_t>(i);
    const std::string_view character = word.substr(i, length);
    const int32_t id = character_id(character);
    i += length;
    if (id != kNoToken) {
      if (pending_unk != kNoToken) symbols.push_back({pending_unk, begin, begin, 0, 0});
      pending_unk = kNoToken;
      symbols.push_back({id, begin, begin + length, 0, 0});
      continue;
    }
    // Byte tokens go before a pending unk, as they do in the tokenizers library.
    if (options_.byte_fallback && append_byte_tokens(character, begin, symbols)) continue;
    if (options_.unk_id == kNoToken) continue;
    if (pending_unk != kNoToken && !options_.fuse_unk) {
      symbols.push_back({pending_unk, begin, begin, 0, 0});
    }
    pending_unk = options_.unk_id;
  }
  const auto end = static_cast<uint32_t>(word.size());
  if (pending_unk != kNoToken) symbols.push_back({pending_unk, end, end, 0, 0});
}

BpeModel::Merge BpeModel::find_pair(int32_t left, int32_t right) const {
  const size_t mask = pair_table_.size() - 1;
  for (size_t slot = pair_hash(seed_, left, right) & mask; pair_table_[slot] != kEmptySlot;
       slot = (slot + 1) & mask) {
    const uint32_t rank = pair_table_[slot];
    if (left_[rank] == left && right_[rank] == right) return {rank, joined_[rank]};
  }
  return {kEmptySlot, kNoToken};
}

BpeModel::Merge BpeModel::find_merge(const Symbol& left, const Symbol& right,
                                     std::string_view word) const {
  if (order_.empty()) return find_pair(left.id, right.id);
  // A gap means that characters between the two were dropped or became byte tokens.
  if (left.begin == left.end || right.begin == right.end || left.end != right.begin) {
    return {kEmptySlot, kNoToken};
  }
  const int32_t id = vocabulary_.find(word.substr(left.begin, right.end - left.begin));
  if (id == kNoToken || !mergeable_[id]) return {kEmptySlot, kNoToken};
  return {order_[id], id};
}

void BpeModel::merge_short(std::string_view word, std::vector<Symbol>& symbols) const {
  std::array<Merge, kShortWord> merges;  // merges[i] joins symbols i and i + 1
  size_t count = symbols.size();
  for (size_t i = 0; i + 1 < count; ++i) merges[i] = find_merge(symbols[i], symbols[i + 1], word);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].id == kNoToken) break;
    symbols[best].id = merges[best].id;
    symbols[best].end = symbols[best + 1].end;
    for (size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      merges[i - 1] = merges[i];
    }
    --count;
    if (best > 0) merges[best - 1] = find_merge(symbols[best - 1], symbols[best], word);
    if (best + 1 < count) merges[best] = find_merge(symbols[best], symbols[best + 1], word);
  }
  symbols.resize(count);
}

void BpeModel::merge_long(std::string_view word, AbandonCheck& abandoned,
                          std::vector<Symbol>& symbols) const {
  struct Candidate {
    uint32_t rank;
    int32_t position;
    int32_t id;
    bool operator<(const Candidate& other) const {  // the heap's top is the largest
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };
  const auto count = static_cast<int32_t>(symbols.size());
  std::vector<Candidate> found;
  const auto candidate = [&](int32_t position, int32_t next) {
    const Merge merge = find_merge(symbols[position], symbols[next], word);
    return Candidate{merge.rank, position, merge.id};
  };
  for (int32_t i = 0; i < count; ++i) {
    symbols[i].previous = i - 1;
    symbols[i].next = i + 1 < count ? i + 1 : -1;
    if (i + 1 == count || abandoned()) break;
    if (const Candidate next = candidate(i, i + 1); next.id != kNoToken) found.push_back(next);
  }
  std::priority_queue<Candidate> queue(std::less<Candidate>{}, std::move(found));
  while (!queue.empty() && !abandoned()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol& left = symbols[top.position];
    if (left.id == kNoToken || left.next < 0) continue;
    Symbol& right = symbols[left.next];
    // Either side may have changed since this candidate was found.
    if (find_merge(left, right, word).id != top.id) continue;
    left.id = top.id;
    left.end = right.end;
    left.next = right.next;
    right.id = kNoToken;
    if (left.next >= 0) symbols[left.next].previous = top.position;
    if (left.previous >= 0) {
      const Candidate next = candidate(left.previous, top.position);
      if (next.id != kNoToken) queue.push(next);
    }
    if (left.next >= 0) {
      const Candidate next = candidate(top.position, left.next);
      if (next.id != kNoToken) queue.push(next);
    }
  }
  std::erase_if(symbols, [](const Symbol& symbol) { return symbol.id == kNoToken; });
}

void BpeModel::encode(std::string_view word, AbandonCheck& abandoned,
                      std::vector<int32_t>& ids) const {
  if (word.empty()) return;
  if (options_.ignore_merges) {
    std::string spelled;
    if (options_.byte_level) {
      for (const char c : word) append_utf8(kByteAlphabet[static_cast<uint8_t>(c)], spelled);
    }
    const int32_t id = vocabulary_.find(options_.byte_level ? std::string_view(spelled) : word);
    if (id != kNoToken) {
      ids.push_back(id);
      return;
    }
  }
  std::vector<Symbol> symbols;
  symbols.reserve(std::min<size_t>(word.size(), 64));
  first_symbols(word, symbols);
  if (symbols.size() <= kShortWord) {
    merge_short(word, symbols);
  } else {
    merge_long(word, abandoned, symbols);
  }
  for (const Symbol& symbol : symbols) ids.push_back(symbol.id);
}

int64_t BpeModel::max_bytes_per_id() const {
  const auto knows_text = [](const int32_t* ids) {
    for (int32_t byte = 0; byte < 256; ++byte) {
      if (ids[byte] == kNoToken && is_of_text(byte)) return false;
    }
    return true;
  };
  const bool all_known = (options_.byte_level && knows_text(byte_ids_)) ||
                         (options_.byte_fallback && knows_text(fallback_ids_));
  if (!all_known && (options_.unk_id == kNoToken || options_.fuse_unk)) return 0;
  int64_t longest = kMaxUtf8Bytes;  // an unknown character
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    const std::string_view text = vocabulary_.text(id);
    // Byte level spells each byte as a character.
    const auto bytes =
        options_.byte_level
            ? std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; })
            : std::ssize(text);
    longest = std::max<int64_t>(longest, bytes);
  }
  return longest;
}

}  // namespace encore
