// AMD's matrix instructions for kernels that run on the host: operands and accumulators lie over
// the lanes as AMD's instruction set reference has them. Sums run over k in order, in f32, where a
// product is exact.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "gpu_on_cpu.h"
#include "pair.cuh"

namespace encore::gpu {

// One lane's part of c += a * b: kSums accumulators, kWords words of each operand.
template <int kSums, int kWords>
struct OnCpuTile {
  float c[kSums];
  uint32_t a[kWords];
  uint32_t b[kWords];
};

template <typename T>
float half_of(const uint32_t* words, int k) {
  return k % 2 == 0 ? low_of<T>(words[k / 2]) : high_of<T>(words[k / 2]);
}

// v_mfma_f32_16x16x16_{bf16_1k,f16}: lane 16 g + l has a[l][4 g + k], b[4 g + k][l], c[4 g + v][l].
template <typename T>
void mfma_16x16x16(float (&c)[4], const uint32_t (&a)[2], const uint32_t (&b)[2]) {
  using Tile = OnCpuTile<4, 2>;
  Tile tile{{c[0], c[1], c[2], c[3]}, {a[0], a[1]}, {b[0], b[1]}};
  on_cpu::warp_together(on_cpu::kAllLanes, tile, [](Tile** lanes) {
    for (int lane = 0; lane < 64; ++lane) {
      for (int v = 0; v < 4; ++v) {
        const int row = lane / 16 * 4 + v;
        for (int k = 0; k < 16; ++k) {
          const int g = k / 4 * 16;
          lanes[lane]->c[v] +=
              half_of<T>(lanes[g + row]->a, k % 4) * half_of<T>(lanes[g + lane % 16]->b, k % 4);
        }
      }
    }
  });
  std::memcpy(c, tile.c, sizeof(c));
}

// v_wmma_f32_16x16x16_{bf16,f16}, 32 lanes: lane 16 g + l has a[l][k], b[k][l], c[2 v + g][l]. The
// instruction takes a and b of the lanes 16 .. 31 to be those of the lanes 0 .. 15.
template <typename T>
void wmma_16x16x16(float (&c)[8], const uint32_t (&a)[8], const uint32_t (&b)[8]) {
  using Tile = OnCpuTile<8, 8>;
  Tile tile;
  std::memcpy(tile.c, c, sizeof(c));
  std::memcpy(tile.a, a, sizeof(a));
  std::memcpy(tile.b, b, sizeof(b));
  on_cpu::warp_together(on_cpu::kAllLanes, tile, [](Tile** lanes) {
    for (int lane = 0; lane < 32; ++lane) {
      const int same = lane ^ 16;
      if (std::memcmp(lanes[lane]->a, lanes[same]->a, sizeof(Tile::a)) != 0 ||
          std::memcmp(lanes[lane]->b, lanes[same]->b, sizeof(Tile::b)) != 0) {
        std::fprintf(stderr, "kernel on CPU: the halves of a warp bring different operands\n");
        std::abort();
      }
      for (int v = 0; v < 8; ++v) {
        const int row = 2 * v + lane / 16;
        for (int k = 0; k < 16; ++k) {
          lanes[lane]->c[v] += half_of<T>(lanes[row]->a, k) * half_of<T>(lanes[lane]->b, k);
        }
      }
    }
  });
  std::memcpy(c, tile.c, sizeof(c));
}

}  // namespace encore::gpu
