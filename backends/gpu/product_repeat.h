// Whether a matrix product gives the same bits every time it runs.
#pragma once

#include <functional>

#include "blas.h"
#include "encore/status.h"
#include "vendor.h"

namespace encore::gpu {

// Runs the product a few times and compares the first megabyte of y. What differs rarely may go
// unseen: sums whose order depends on which block comes first differ within a few runs.
// Overwrites y, [m, n]. Waits for the stream.
Result<bool> gives_same_bits(const ProductShape& shape, void* y,
                             const std::function<Status()>& enqueue, gpuStream_t stream);

}  // namespace encore::gpu
