// Matrix products by a library that has several algorithms for each: chosen by timing, the choice
// kept between runs. What the vendors' libraries have in common; each brings a ProductLibrary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "blas.h"
#include "encore/status.h"
#include "tuning_cache.h"
#include "vendor.h"

namespace encore::gpu {

struct ProductShapeHash {
  size_t operator()(const ProductShape& shape) const;
};

struct Workspace {
  void* data = nullptr;
  int64_t bytes = 0;
};

// One shape of product, described to the library. Holds host memory only.
class LibraryProduct {
 public:
  virtual ~LibraryProduct() = default;

  // Up to `count` algorithms that fit the workspace, the library's favourite first; at least one.
  // Errors: kUnimplemented if there is none.
  virtual Result<std::vector<AlgorithmBytes>> candidates(int64_t workspace_bytes,
                                                         int count) const = 0;
  // Whether the algorithm computes this shape within the workspace on this device. Any bytes.
  virtual bool serves(const AlgorithmBytes& algorithm, int64_t workspace_bytes) const = 0;
  // REQUIRES: the algorithm serves. Errors: kUnimplemented if the library refuses it after all.
  virtual Status run(const AlgorithmBytes& algorithm, const ProductOperands& operands,
                     const Workspace& workspace, gpuStream_t stream) = 0;
};

// A library, for one device.
class ProductLibrary {
 public:
  virtual ~ProductLibrary() = default;

  // What an algorithm is good for: the device and the version of the library, in words.
  virtual const std::string& identity() const = 0;
  virtual int64_t workspace_bytes() const = 0;
  // Whether all algorithms that it names give the same bits every time. Those of a library that
  // does not promise it are tried before they are chosen.
  virtual bool promises_same_bits() const = 0;
  // The library outlives the product.
  virtual Result<std::unique_ptr<LibraryProduct>> describe(const ProductShape& shape) = 0;
};

class TunedBlas final : public Blas {
 public:
  // Reads what was tuned before from `tuning_folder`; an empty one keeps nothing.
  TunedBlas(std::unique_ptr<ProductLibrary> library, const std::filesystem::path& tuning_folder);

  int64_t workspace_bytes() const override { return workspace_.bytes; }
  void set_workspace(void* workspace) override { workspace_.data = workspace; }
  Status tune(const ProductShape& shape, const ProductOperands& operands,
              std::span<const void* const> weights, void* stream) override;
  std::string identity() const override { return library_->identity(); }
  Status save_tuning() override { return tuning_.save(); }
  Status multiply(const ProductShape& shape, const ProductOperands& operands,
                  void* stream) override;

 private:
  struct Prepared {
    std::unique_ptr<LibraryProduct> product;
    AlgorithmBytes algorithm;
  };

  Status check(const ProductShape& shape, const ProductOperands& operands) const;
  Result<Prepared*> prepare(const ProductShape& shape);
  Result<AlgorithmBytes> choose(LibraryProduct& product, const ProductShape& shape,
                                const ProductOperands& operands,
                                std::span<const void* const> weights, gpuStream_t stream);

  std::unique_ptr<ProductLibrary> library_;
  TuningCache tuning_;
  Workspace workspace_;
  std::unordered_map<ProductShape, Prepared, ProductShapeHash> prepared_;
};

}  // namespace encore::gpu
