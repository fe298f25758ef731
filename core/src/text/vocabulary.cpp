#include "text/vocabulary.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>

#include "text/hash.h"

namespace encore {

uint64_t process_hash_seed() {
  static const uint64_t seed = [] {
    std::random_device device;
    return (static_cast<uint64_t>(device()) << 32) | device();
  }();
  return seed;
}

uint64_t Vocabulary::hash(std::string_view text) const {
  uint64_t state = seed_ ^ text.size();
  while (text.size() >= 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data(), 8);
    state = mix_hash(state, word);
    text.remove_prefix(8);
  }
  uint64_t rest = 0;
  std::memcpy(&rest, text.data(), text.size());
  state = mix_hash(state, rest);
  return state ^ (state >> 32);
}

int32_t Vocabulary::find(std::string_view text) const {
  const size_t mask = table_.size() - 1;
  for (size_t slot = hash(text) & mask; table_[slot] != kNoToken; slot = (slot + 1) & mask) {
    if (this->text(table_[slot]) == text) return table_[slot];
  }
  return kNoToken;
}

std::string_view Vocabulary::text(int32_t id) const {
  if (id < 0 || id >= size()) return {};
  return std::string_view(arena_).substr(offsets_[id], offsets_[id + 1] - offsets_[id]);
}

bool Vocabulary::insert(int32_t id) {
  const size_t mask = table_.size() - 1;
  size_t slot = hash(text(id)) & mask;
  for (; table_[slot] != kNoToken; slot = (slot + 1) & mask) {
    if (text(table_[slot]) == text(id)) return false;
  }
  table_[slot] = id;
  return true;
}

Result<Vocabulary> Vocabulary::build(std::string_view arena, std::vector<Entry> entries,
                                     Duplicates duplicates) {
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.id < b.id; });
  Vocabulary vocabulary;
  vocabulary.seed_ = process_hash_seed();
  if (entries.empty()) return vocabulary;
  if (entries.front().id < 0 || entries.back().id >= kMaxTokens) {
    const int32_t bad = entries.front().id < 0 ? entries.front().id : entries.back().id;
    return data_loss("vocabulary: token id " + std::to_string(bad) + " is outside 0.." +
                     std::to_string(kMaxTokens - 1));
  }
  vocabulary.offsets_.reserve(entries.back().id + 2);
  vocabulary.arena_.reserve(arena.size());
  for (const Entry& entry : entries) {
    if (vocabulary.size() > entry.id) {
      return data_loss("vocabulary: token id " + std::to_string(entry.id) + " is given twice");
    }
    while (vocabulary.size() < entry.id) {
      vocabulary.offsets_.push_back(static_cast<uint32_t>(vocabulary.arena_.size()));
    }
    vocabulary.arena_ += arena.substr(entry.offset, entry.length);
    vocabulary.offsets_.push_back(static_cast<uint32_t>(vocabulary.arena_.size()));
  }
  vocabulary.table_.assign(std::bit_ceil(entries.size() * 2), kNoToken);
  for (const Entry& entry : entries) {
    if (entry.length == 0 || vocabulary.insert(entry.id)) continue;
    if (duplicates == Duplicates::kKeepFirst) continue;
    return data_loss("vocabulary: token " + std::to_string(entry.id) + " repeats the text \"" +
                     std::string(vocabulary.text(entry.id)) + "\"");
  }
  return vocabulary;
}

}  // namespace encore
