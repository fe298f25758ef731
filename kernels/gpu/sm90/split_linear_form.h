// The split product's kernels.
#pragma once

#include <cuda.h>

#include <span>

#include "sm90/split_linear_shape.cuh"

namespace encore::gpu {

struct SplitForm {
  void (*kernel)(CUtensorMap w_map, CUtensorMap x_map, SplitParams params) = nullptr;
  int smem_bytes = 0;
  int tile_n = 0;  // rows of w
  int parts = 0;   // of k: blocks of a cluster
};

// A variant is a place in this list.
std::span<const SplitForm> split_forms();

}  // namespace encore::gpu
