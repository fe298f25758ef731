// Which algorithm of a library was fastest for which matrix product, kept in a TuningFile between
// runs:
//
//   "products": [{"m": 64, "n": 6144, "k": 4096, "output": "bf16", "accumulate": false,
//                 "bias": false, "algorithm": "<hex>"}, ...]
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "blas.h"
#include "encore/status.h"
#include "tuning_file.h"

namespace encore::gpu {

// The library's own description of an algorithm; opaque here.
using AlgorithmBytes = std::vector<std::byte>;

// Used by one thread at a time.
class TuningCache {
 public:
  // `identity`: the device, the library and its version.
  TuningCache(const std::filesystem::path& folder, std::string identity)
      : file_(folder, "products", std::move(identity)) {}

  // Replaces what is held by the file's choices, if there is a file. Errors: kDataLoss for one that
  // is damaged or another identity's: it is not used, and the next save() replaces it.
  Status load();
  // Writes if anything was put since the last load() or save(); what others have saved meanwhile
  // stays in the file. Errors: see TuningFile.
  Status save();

  void put(const ProductShape& shape, AlgorithmBytes algorithm);
  // The choice for exactly this shape, or null. Valid until the next put() or load().
  const AlgorithmBytes* find(const ProductShape& shape) const;
  // The choice that serves this shape: of those that differ in m alone, the one with the smallest m
  // that is not below the shape's, else the largest; null if there is none.
  const AlgorithmBytes* nearest(const ProductShape& shape) const;

  // Empty if nothing is kept.
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  // m last, so that shapes that differ in m alone are neighbours.
  struct Order {
    bool operator()(const ProductShape& a, const ProductShape& b) const;
  };
  using Choices = std::map<ProductShape, AlgorithmBytes, Order>;

  TuningFile file_;
  Choices choices_;
  bool changed_ = false;
};

}  // namespace encore::gpu
