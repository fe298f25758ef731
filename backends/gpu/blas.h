// Dense matrix products of a model, as a vendor's library computes them.
//
//   y[m, n] = x[m, k] * w[n, k]^T  (+ bias[n])  (+ y[m, n])
//
// All row-major without gaps; bf16 operands, f32 accumulation.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "encore/status.h"
#include "kernels/gpu/launch.h"

namespace encore::gpu {

struct ProductShape {
  int32_t m = 0, n = 0, k = 0;
  Element output = Element::kBF16;  // kF32 for logits
  bool accumulate = false;          // adds what y held
  bool bias = false;                // bf16 output only

  friend bool operator==(const ProductShape&, const ProductShape&) = default;
};

// Device memory, each aligned to 16 bytes.
struct ProductOperands {
  const void* x = nullptr;     // [m, k] bf16
  const void* w = nullptr;     // [n, k] bf16
  const void* bias = nullptr;  // [n] bf16, null unless the shape has one
  void* y = nullptr;           // [m, n] bf16 or f32
};

// Used by one thread at a time, and by one stream at a time: products share the workspace. Runs on
// the device that was current when it was made, which must be current in every call.
class Blas {
 public:
  virtual ~Blas() = default;

  // What products need beside their operands. Graphs remember the address, so it is set once,
  // before the first tune() or multiply(), and outlives them. Aligned to 256 bytes.
  virtual int64_t workspace_bytes() const = 0;
  virtual void set_workspace(void* workspace) = 0;

  // Chooses an algorithm by timing candidates on the device, unless a choice is on record. It
  // serves every m up to this one, from the next smaller m that was tuned on. Overwrites
  // operands.y. `weights` are other matrices of the shape of operands.w: the timed calls take turns
  // among them, so that caches are as cold as in a step; may be empty. Synchronises the stream.
  // Errors: kFailedPrecondition while the stream is captured; kUnimplemented if nothing fits.
  virtual Status tune(const ProductShape& shape, const ProductOperands& operands,
                      std::span<const void* const> weights, void* stream) = 0;

  // What its times are good for: the device, the library and its version. Empty where nothing else
  // is timed against it.
  virtual std::string identity() const { return {}; }

  // Writes what tune() chose to disk, if anything is new. A failure costs the next start some time
  // and nothing else.
  virtual Status save_tuning() = 0;

  // Enqueues the product. Capturable; allocates no device memory, synchronises nothing. The first
  // product of a shape prepares it on the host. A shape that was never tuned takes the library's
  // own first choice. The same call gives the same bits every time.
  // Errors: kInvalidArgument for sizes, a bias beside f32 output, or pointers off their alignment.
  virtual Status multiply(const ProductShape& shape, const ProductOperands& operands,
                          void* stream) = 0;
};

// "product m=4 n=64 k=128 bf16 accumulated with bias", for messages.
std::string name_of(const ProductShape& shape);

// What every product promises of its shape and operands.
// Errors: kInvalidArgument, naming what is wrong.
Status check_product(const ProductShape& shape, const ProductOperands& operands);

}  // namespace encore::gpu
