// What mma.cuh declares, for kernels that run on the host: each warp operation gathers its lanes'
// operands, computes all lanes' results, and hands them back. Sums run over k in order, in f32.
// Asynchronous copies happen at once.
#pragma once

#include <cstring>

#include "pair.cuh"
#include "vendor.h"

template <typename T>
T __ldcg(const T* address) {
  return *address;
}

namespace encore::gpu {

using SharedAddress = uintptr_t;
inline SharedAddress shared_window(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

inline void copy16_async(SharedAddress to, const void* from, bool valid) {
  if (valid) {
    std::memcpy(reinterpret_cast<void*>(to), from, 16);
  } else {
    std::memset(reinterpret_cast<void*>(to), 0, 16);
  }
}
inline void store16_shared(SharedAddress to, const void* from) { copy16_async(to, from, true); }
inline void commit_copies() {}
template <int kPending>
inline void wait_copies() {}

struct OnCpuMatrices {
  SharedAddress address;
  uint32_t r[4];
};
inline const uint16_t* matrix_row(OnCpuMatrices** lanes, int matrix, int row) {
  return reinterpret_cast<const uint16_t*>(lanes[8 * matrix + row]->address);
}
inline void load_matrices(uint32_t (&r)[4], SharedAddress address) {
  OnCpuMatrices record{address, {}};
  on_cpu::warp_together(0xffffffffU, record, [](OnCpuMatrices** lanes) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 4; ++i) {
        const uint16_t* row = matrix_row(lanes, i, lane / 4) + 2 * (lane % 4);
        lanes[lane]->r[i] = row[0] | static_cast<uint32_t>(row[1]) << 16;
      }
    }
  });
  std::memcpy(r, record.r, sizeof(r));
}
inline void load_matrices_transposed(uint32_t (&r)[4], SharedAddress address) {
  OnCpuMatrices record{address, {}};
  on_cpu::warp_together(0xffffffffU, record, [](OnCpuMatrices** lanes) {
    for (int lane = 0; lane < 32; ++lane) {
      const int row = 2 * (lane % 4);
      const int column = lane / 4;
      for (int i = 0; i < 4; ++i) {
        lanes[lane]->r[i] = matrix_row(lanes, i, row)[column] |
                            static_cast<uint32_t>(matrix_row(lanes, i, row + 1)[column]) << 16;
      }
    }
  });
  std::memcpy(r, record.r, sizeof(r));
}
inline uint32_t transpose_matrix(uint32_t row) {
  struct Record {
    uint32_t in;
    uint32_t out;
  } record{row, 0};
  on_cpu::warp_together(0xffffffffU, record, [](Record** lanes) {
    const auto element = [&](int i, int j) {
      return lanes[4 * i + j / 2]->in >> (16 * (j % 2)) & 0xffffU;
    };
    for (int lane = 0; lane < 32; ++lane) {
      const int j = lane / 4;
      const int i = 2 * (lane % 4);
      lanes[lane]->out = element(i, j) | element(i + 1, j) << 16;
    }
  });
  return record.out;
}

template <typename T>
float half_of_pair(uint32_t pair, int which) {
  return which == 0 ? low_of<T>(pair) : high_of<T>(pair);
}

struct OnCpuProduct {
  float c[4];
  uint32_t a[4];
  uint32_t b[2];
};
template <typename T>
void mma_16x8x16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  OnCpuProduct record{{c[0], c[1], c[2], c[3]}, {a[0], a[1], a[2], a[3]}, {b0, b1}};
  on_cpu::warp_together(0xffffffffU, record, [](OnCpuProduct** lanes) {
    float left[16][16];
    float right[16][8];
    for (int lane = 0; lane < 32; ++lane) {
      const int group = lane / 4;
      for (int e = 0; e < 2; ++e) {
        const int k = 2 * (lane % 4) + e;
        for (int i = 0; i < 4; ++i)
          left[group + 8 * (i % 2)][k + 8 * (i / 2)] = half_of_pair<T>(lanes[lane]->a[i], e);
        for (int i = 0; i < 2; ++i) right[k + 8 * i][group] = half_of_pair<T>(lanes[lane]->b[i], e);
      }
    }
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + 8 * (i / 2);
        const int column = 2 * (lane % 4) + i % 2;
        for (int k = 0; k < 16; ++k) lanes[lane]->c[i] += left[row][k] * right[k][column];
      }
    }
  });
  std::memcpy(c, record.c, sizeof(c));
}

}  // namespace encore::gpu
