// The ids that end a text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "model/model_files.h"
#include "model/printable.h"

namespace encore {

// Keeps the ids that the vocabulary has, once each, and notes the others.
inline void set_eos_ids(const std::vector<int64_t>& ids, ModelFiles& model) {
  std::vector<int32_t>& kept = model.generation.eos_ids;
  kept.clear();
  for (const int64_t id : ids) {
    if (id < 0 || id >= model.spec.vocab_size) {
      model.notes.push_back(concat_message("end token ", id, " is ignored: the vocabulary has ",
                                           model.spec.vocab_size, " entries"));
      continue;
    }
    const auto token = static_cast<int32_t>(id);
    if (std::find(kept.begin(), kept.end(), token) == kept.end()) kept.push_back(token);
  }
}

}  // namespace encore
