// Copies of tensor tiles between global and shared memory by the copy engine of sm_90.
//
// The host describes a tensor once (encode_tile_map); the kernel takes the map as a
// __grid_constant__ parameter and names tiles by element coordinates, innermost first. Elements
// outside the tensor arrive as 0. A tile in shared memory is 1024-byte aligned and its rows are 128
// bytes, swizzled: the 16-byte piece p of row r lies at piece p ^ (r % 8).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/gpu/launch.h"
#include "sm90/barrier.cuh"
#include "vendor.h"

namespace encore::gpu {

// A tensor of `rank` dimensions (innermost first, contiguous) and the box that one copy moves.
struct TileMapShape {
  static constexpr int kMaxRank = 5;
  int rank = 0;
  uint64_t size[kMaxRank] = {};
  uint64_t stride_bytes[kMaxRank] = {};  // of dimension i; [0] is not used. Multiples of 16
  uint32_t box[kMaxRank] = {};           // box[0] elements are 128 bytes; others up to 256
};

// Fills `map` (host memory). `data` is 16-byte aligned device memory. Errors: the run-time's code
// if the driver has no tensor maps, cudaErrorInvalidValue if it refuses this one.
LaunchError encode_tile_map(CUtensorMap* map, Element element, const void* data,
                            const TileMapShape& shape);

// The same for an operand of a product: row-major bf16 [rows, k] without gaps, in boxes of box_rows
// by 64 k.
LaunchError encode_operand_map(CUtensorMap* map, const void* data, int rows, int k, int box_rows);

// Whether a tensor, or what is read and written in packs beside it, may start there.
inline bool is_aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

__device__ inline void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Cache policies for the loads below.
__device__ inline uint64_t evict_first_policy() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ inline uint64_t evict_normal_policy() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ inline uint64_t evict_last_policy() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// One thread loads one tile to `to`, a shared address; `full` is told of the bytes.
__device__ inline void load_tile_2d(uint32_t to, const CUtensorMap* map, uint64_t* full, int x,
                                    int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
      "l"(map), "r"(shared_address(full)), "r"(x), "r"(y)
      : "memory");
}
// To the same place in every block of the cluster whose bit of `ranks` is set; the barrier at
// `full` of each is told.
__device__ inline void load_tile_2d_shared(uint32_t to, const CUtensorMap* map, uint64_t* full,
                                           int x, int y, uint32_t ranks, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5, %6;" ::"r"(to),
      "l"(map), "r"(shared_address(full)), "r"(x), "r"(y), "h"(static_cast<uint16_t>(ranks)),
      "l"(policy)
      : "memory");
}
__device__ inline void load_tile_2d(uint32_t to, const CUtensorMap* map, uint64_t* full, int x,
                                    int y, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
      "l"(map), "r"(shared_address(full)), "r"(x), "r"(y), "l"(policy)
      : "memory");
}
__device__ inline void load_tile_3d(uint32_t to, const CUtensorMap* map, uint64_t* full, int x,
                                    int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
      "l"(map), "r"(shared_address(full)), "r"(x), "r"(y), "r"(z)
      : "memory");
}
__device__ inline void load_tile_5d(uint32_t to, const CUtensorMap* map, uint64_t* full, int x,
                                    int y, int z, int w, int v) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(to),
      "l"(map), "r"(shared_address(full)), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v)
      : "memory");
}

}  // namespace encore::gpu
