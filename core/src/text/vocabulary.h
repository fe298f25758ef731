// A model's tokens: text to id and back, in one arena and one open-addressing table.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "encore/status.h"

namespace encore {

inline constexpr int32_t kNoToken = -1;

// Immutable after build(); any thread may read it. Costs about 20 bytes a token beyond its text.
class Vocabulary {
 public:
  struct Entry {
    uint32_t offset;  // into the arena given to build()
    uint32_t length;
    int32_t id;
  };

  // What build() does with a second entry of the same text.
  enum class Duplicates { kRefuse, kKeepFirst };

  Vocabulary() = default;

  // Errors: kDataLoss for an id that is negative, at or above kMaxTokens, or given twice, and for a
  // repeated text under kRefuse.
  static Result<Vocabulary> build(std::string_view arena, std::vector<Entry> entries,
                                  Duplicates duplicates);

  // The id of exactly `text`, or kNoToken.
  int32_t find(std::string_view text) const;

  // The text of `id`; empty for an id outside the vocabulary or one that no entry names.
  std::string_view text(int32_t id) const;

  // One more than the largest id.
  int32_t size() const { return static_cast<int32_t>(offsets_.size()) - 1; }

  static constexpr int32_t kMaxTokens = 1 << 22;

 private:
  uint64_t hash(std::string_view text) const;
  bool insert(int32_t id);

  std::string arena_;                     // texts in id order
  std::vector<uint32_t> offsets_{0};      // [size + 1] into arena_
  std::vector<int32_t> table_{kNoToken};  // power of two, linear probing
  uint64_t seed_ = 0;                     // drawn per process: files cannot aim for collisions
};

}  // namespace encore
