// Which algorithm was fastest for which matrix product, kept in a file between runs.
//
// One file holds the choices of one device with one version of one library, which `identity` names:
// an algorithm means nothing to any other. The file is JSON:
//
//   {"format": 1, "identity": "...", "products": [
//     {"m": 64, "n": 6144, "k": 4096, "output": "bf16", "accumulate": false, "bias": false,
//      "algorithm": "<hex>"}, ...]}
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "blas.h"
#include "encore/status.h"

namespace encore::gpu {

// The library's own description of an algorithm; opaque here.
using AlgorithmBytes = std::vector<std::byte>;

// $XDG_CACHE_HOME/encore, else $HOME/.cache/encore, else empty.
std::filesystem::path default_tuning_folder();

// Used by one thread at a time. Several processes may share a folder: the last to save wins, and
// none sees half a file.
class TuningCache {
 public:
  // An empty folder keeps nothing on disk.
  TuningCache(const std::filesystem::path& folder, std::string identity);

  // Replaces what is held by the file's choices, if there is a file. Errors: kDataLoss for one that
  // is damaged or another identity's: it is not used, and the next save() replaces it.
  Status load();
  // Errors: kUnavailable, naming the path; an older file is then still whole.
  Status save() const;

  void put(const ProductShape& shape, AlgorithmBytes algorithm);
  // The choice for exactly this shape, or null. Valid until the next put() or load().
  const AlgorithmBytes* find(const ProductShape& shape) const;
  // The choice that serves this shape: of those that differ in m alone, the one with the smallest m
  // that is not below the shape's, else the largest; null if there is none.
  const AlgorithmBytes* nearest(const ProductShape& shape) const;

  // Empty if nothing is kept.
  const std::filesystem::path& path() const { return path_; }

 private:
  // m last, so that shapes that differ in m alone are neighbours.
  struct Order {
    bool operator()(const ProductShape& a, const ProductShape& b) const;
  };
  using Choices = std::map<ProductShape, AlgorithmBytes, Order>;

  Status damaged(const std::string& why) const;
  Result<Choices> parse(std::string_view text) const;

  std::filesystem::path path_;
  std::string identity_;
  Choices choices_;
};

}  // namespace encore::gpu
