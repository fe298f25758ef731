// The gated product's kernels.
#pragma once

#include <cuda.h>

#include <span>

#include "sm90/gated_linear_shape.cuh"

namespace encore::gpu {

struct GatedForm {
  void (*kernel)(CUtensorMap w_map, CUtensorMap x_map, GatedParams params) = nullptr;
  int smem_bytes = 0;
  int tile_n = 0;      // rows of w, half of them from gate
  int row_blocks = 0;  // of a cluster
};

// A variant is a place in this list.
std::span<const GatedForm> gated_forms();

}  // namespace encore::gpu
