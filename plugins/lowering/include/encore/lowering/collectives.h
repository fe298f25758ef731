// How one rank's ops meet those of the other ranks: for backends whose collectives are a library of
// their own beside the ops, as on GPUs.
#pragma once

#include "encore/lowering/ops.h"
#include "encore/status.h"

namespace encore::lowering {

// One object a rank. The calls for sums and gathers enqueue on the queue that the object was made
// for, or are recorded if a capture is open there; every rank makes the same calls in the same
// order. Both have run once before anything is captured. Meaning and results: Ops::all_reduce and
// Ops::all_gather.
class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual Status all_reduce(Matrix x, Rows rows) = 0;
  // Whether all_reduce_norm() can take x; if not, the sum and the norm are two.
  virtual bool has_all_reduce_norm(Matrix x) const = 0;
  // `norm` is the weight's device address.
  virtual Status all_reduce_norm(Matrix x, Rows rows, const void* norm, float eps,
                                 Matrix normed) = 0;
  virtual Status all_gather(Matrix part, Rows rows, Matrix whole) = 0;
  // Why a step may not end: a failure that the other ranks or the library noticed. Ok if none did.
  virtual Status health() = 0;
};

}  // namespace encore::lowering
