// The fastest of a library's algorithms for one matrix product, by timing.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "encore/status.h"
#include "vendor.h"

namespace encore::gpu {

// Enqueues the product by one of the algorithms, with the weights `w`.
using EnqueueCandidate = std::function<Status(size_t candidate, const void* w)>;

// Which of `count` algorithms it is. Calls take turns among `weights`, or use `w` if that is empty;
// see Blas::tune(). One that answers kUnimplemented is passed over: a library may name what it then
// refuses to run. Waits for the stream. REQUIRES: count > 0.
// Errors: kUnimplemented if no algorithm runs; whatever else `enqueue` answers.
Result<size_t> fastest_candidate(size_t count, const EnqueueCandidate& enqueue, const void* w,
                                 std::span<const void* const> weights, gpuStream_t stream);

}  // namespace encore::gpu
