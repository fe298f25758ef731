// Matrix products by the first of several libraries that has them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "blas.h"
#include "encore/status.h"
#include "tuned_blas.h"

namespace encore::gpu {

// A product that one library answers with kUnimplemented goes to the next, and stays there; the log
// says so once a shape, with the reason code blas_fallback.
class FallbackBlas final : public Blas {
 public:
  struct Choice {
    std::string name;  // "hipBLASLt", for the log
    std::unique_ptr<Blas> blas;
  };

  // The one to be asked first comes first. `fallbacks` counts the shapes that went on to another
  // library, and outlives this. REQUIRES: choices is not empty.
  FallbackBlas(std::vector<Choice> choices, std::atomic<int64_t>& fallbacks)
      : choices_(std::move(choices)), fallbacks_(fallbacks) {}

  // Each library has its own part.
  int64_t workspace_bytes() const override;
  void set_workspace(void* workspace) override;
  Status tune(const ProductShape& shape, const ProductOperands& operands,
              std::span<const void* const> weights, void* stream) override;
  // Every library's. Returns the first error.
  Status save_tuning() override;
  Status multiply(const ProductShape& shape, const ProductOperands& operands,
                  void* stream) override;

 private:
  // call(Blas&), a Status, on the library that has the shape.
  template <typename Call>
  Status with_library_of(const ProductShape& shape, const Call& call);

  std::vector<Choice> choices_;
  std::atomic<int64_t>& fallbacks_;
  // Which library has a shape that the first does not have.
  std::unordered_map<ProductShape, size_t, ProductShapeHash> later_;
};

}  // namespace encore::gpu
