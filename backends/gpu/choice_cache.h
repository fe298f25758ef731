// Which kernels were fastest for which products, kept in a TuningFile between runs:
//
//   "kernels": [{"products": "128 rows, ...", "variants": [2, 1, 2, 1]}, ...]
//
// A name says all that a choice was made for; LinearChoice gives it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "encore/status.h"
#include "tuning_file.h"

namespace encore::gpu {

// Used by one thread at a time.
class ChoiceCache {
 public:
  // `identity`: the device, the version of what is timed against our kernels, and of our kernels
  // themselves, since a variant is a place in a list of theirs.
  ChoiceCache(const std::filesystem::path& folder, std::string identity)
      : file_(folder, "kernels", std::move(identity)) {}

  // Replaces what is held by the file's choices, if there is a file. Errors: kDataLoss for one that
  // is damaged or another identity's: it is not used, and the next save() replaces it.
  Status load();
  // Writes if anything was put since the last load() or save(); what others have saved meanwhile
  // stays in the file. Errors: see TuningFile.
  Status save();

  void put(const std::string& products, std::vector<int32_t> variants);
  // Null if there is none. Valid until the next put() or load().
  const std::vector<int32_t>* find(const std::string& products) const;

  // Empty if nothing is kept.
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  using Choices = std::map<std::string, std::vector<int32_t>>;

  TuningFile file_;
  Choices choices_;
  bool changed_ = false;
};

}  // namespace encore::gpu
