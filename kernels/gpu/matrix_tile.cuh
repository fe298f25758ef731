// Products of 16x16x16 tiles, by the lanes of one warp together: one interface to the matrix
// instructions of every device, and plain multiply-adds where there are none.
//
//   c[i][j] += sum over k of a[i][k] * b[k][j]      i, j, k = 0 .. 15; a, b bf16 or f16, c f32
//
// A lane reads a's rows and b's columns along k, so both come from memory that has k innermost. An
// accumulator can become the b of a next product without leaving registers (as_b): so attention
// computes S^T = K Q^T, then O^T += V^T P^T, and a linear layer y^T = w x^T.
//
// Where elements are, with l = lane % 16 and g = lane / 16:
//   kMfma  a[l][4g ..], b[4g ..][l], c[4g + v][l]; v, .. up to 4
//   kWmma  a[l][0 .. 15], b[0 .. 15][l] in both halves of the warp, c[2v + g][l]
//   kMma   mma.cuh's fragments, b and c twice for 8 columns each
//   kNone  b as kWmma; c[256 / W * g + v][l]; of a, the rows of the lane's c
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/gpu/device_traits.h"
#include "pair.cuh"
#include "vendor.h"
#include "warp.cuh"
#if !defined(ENCORE_GPU_HIP)
#include "mma.cuh"
#endif
#if defined(ENCORE_GPU_ON_CPU)
#include "matrix_on_cpu.h"
#endif

namespace encore::gpu {

// Whether the code being compiled can have products on `kUnit` in warps of W lanes. Kernels are
// made for every pair that some device has, since the host's code is one for all; on others they
// do nothing but fail:
//   if (!has_lanes<W>()) return refuse_launch<W>();
//   if constexpr (!has_matrix_unit<kUnit, W>()) {
//     refuse_launch<W>();
//   } else ...
template <MatrixUnit kUnit, int W>
__host__ __device__ constexpr bool has_matrix_unit() {
#if defined(ENCORE_GPU_CUDA)
  return W == 32 && (kUnit == MatrixUnit::kMma || kUnit == MatrixUnit::kNone);
#elif defined(ENCORE_GPU_ON_CPU)
  return kUnit == MatrixUnit::kNone || (kUnit == MatrixUnit::kMfma) == (W == 64);
#elif defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__)
  return W == 64 && kUnit == MatrixUnit::kMfma;
#elif defined(__GFX11__)
  return W == 32 && kUnit == MatrixUnit::kWmma;
#elif defined(__HIP_DEVICE_COMPILE__)
  return W == __AMDGCN_WAVEFRONT_SIZE && kUnit == MatrixUnit::kNone;
#else
  return false;  // HIP's pass for the host
#endif
}

// Words of 4 bytes at `from`, as accesses of up to 16 bytes; aligned to those.
template <int kWords>
__device__ __forceinline__ void load_words(uint32_t (&words)[kWords], const void* from) {
  struct alignas(kWords % 4 == 0 ? 16 : kWords % 2 == 0 ? 8 : 4) Words {
    uint32_t words[kWords];
  };
  const Words loaded = *static_cast<const Words*>(from);
#pragma unroll
  for (int i = 0; i < kWords; ++i) words[i] = loaded.words[i];
}
template <int kWords>
__device__ __forceinline__ void store_words(void* to, const uint32_t (&words)[kWords]) {
  struct alignas(kWords % 4 == 0 ? 16 : kWords % 2 == 0 ? 8 : 4) Words {
    uint32_t words[kWords];
  };
  Words stored;
#pragma unroll
  for (int i = 0; i < kWords; ++i) stored.words[i] = words[i];
  *static_cast<Words*>(to) = stored;
}

// What each specialisation has:
//   A, B, C           a lane's part of an operand or accumulator; C::values, f32
//   row(lane, v)      row of C::values[v]
//   slot(v)           which of the lane's columns of c that is, and
//   column(lane, s)   where they are; a lane has kColumns different ones
//   kSameColumns      lanes that differ by a multiple of it have the same columns
//   load_a(lane, at)  at(row, k) is where a[row][k], a[row][k + 1] ... are, in memory; aligned as
//   if load_b(lane, at)  rows of 16 began at 16 bytes. For b the row is the column of b
//   store_b(lane, b, at)  the inverse; where at() is null nothing is written
//   as_b(lane, c)     c rounded to T: the b with b[k][j] = c[k][j]
//   multiply(c, a, b)
// and on AMD's units, for rows of a that lanes bring in parts, lane 16 g + l the g-th part of row
// l:
//   kParts, kPartWords
//   a_of_parts(lane, part)
template <MatrixUnit kUnit, int W, typename T>
struct MatrixTile;

#if defined(ENCORE_GPU_HIP) && defined(__HIP_DEVICE_COMPILE__)
#if defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__)
template <typename T>
__device__ __forceinline__ void mfma_16x16x16(float (&c)[4], const uint32_t (&a)[2],
                                              const uint32_t (&b)[2]) {
  using Accumulators = float __attribute__((ext_vector_type(4)));
  Accumulators sums = {c[0], c[1], c[2], c[3]};
  if constexpr (std::is_same_v<T, bf16>) {
    using Four = short __attribute__((ext_vector_type(4)));
    sums = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(Four, a),
                                                     __builtin_bit_cast(Four, b), sums, 0, 0, 0);
  } else {
    using Four = _Float16 __attribute__((ext_vector_type(4)));
    sums = __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(Four, a),
                                                 __builtin_bit_cast(Four, b), sums, 0, 0, 0);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) c[i] = sums[i];
}
#elif defined(__GFX11__)
template <typename T>
__device__ __forceinline__ void wmma_16x16x16(float (&c)[8], const uint32_t (&a)[8],
                                              const uint32_t (&b)[8]) {
  using Accumulators = float __attribute__((ext_vector_type(8)));
  Accumulators sums = {c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]};
  if constexpr (std::is_same_v<T, bf16>) {
    using Sixteen = short __attribute__((ext_vector_type(16)));
    sums = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(__builtin_bit_cast(Sixteen, a),
                                                       __builtin_bit_cast(Sixteen, b), sums);
  } else {
    using Sixteen = _Float16 __attribute__((ext_vector_type(16)));
    sums = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(__builtin_bit_cast(Sixteen, a),
                                                      __builtin_bit_cast(Sixteen, b), sums);
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) c[i] = sums[i];
}
#endif
#endif

#if !defined(ENCORE_GPU_CUDA)
// The value of lane `lane ^ 16`, in warps of 32.
__device__ __forceinline__ uint32_t swap_halves(uint32_t value) {
#if defined(ENCORE_GPU_HIP) && defined(__GFX11__)
  return __builtin_amdgcn_permlanex16(value, value, 0x76543210, 0xfedcba98, true, false);
#else
  return shuffle_xor<32>(value, 16);
#endif
}

// Makes `value` here, where all lanes are, if it comes from swap_halves() and only some of them go
// on to use it: clang 19 moves the exchange into their branch, where the others give nothing.
__device__ __forceinline__ void finish_exchange([[maybe_unused]] uint32_t& value) {
#if defined(ENCORE_GPU_HIP) && defined(__GFX11__)
  asm volatile("" : "+v"(value));
#endif
}

template <typename T>
struct MatrixTile<MatrixUnit::kMfma, 64, T> {
  struct A {
    uint32_t words[2];
  };
  using B = A;
  struct C {
    float values[4] = {};
  };
  static constexpr int kColumns = 1;
  static constexpr int kSameColumns = 16;

  __device__ static int row(int lane, int v) { return lane / 16 * 4 + v; }
  __device__ static constexpr int slot(int) { return 0; }
  __device__ static int column(int lane, int) { return lane % 16; }

  template <typename At>
  __device__ __forceinline__ static A load_a(int lane, const At& at) {
    A a;
    load_words(a.words, at(lane % 16, lane / 16 * 4));
    return a;
  }
  template <typename At>
  __device__ __forceinline__ static B load_b(int lane, const At& at) {
    return load_a(lane, at);
  }
  template <typename At>
  __device__ __forceinline__ static void store_b(int lane, const B& b, const At& at) {
    T* const to = at(lane % 16, lane / 16 * 4);
    if (to != nullptr) store_words(to, b.words);
  }
  __device__ __forceinline__ static B as_b(int, const C& c) {
    return {{pack_pair<T>(c.values[0], c.values[1]), pack_pair<T>(c.values[2], c.values[3])}};
  }
  static constexpr int kParts = 4;
  static constexpr int kPartWords = 2;
  __device__ __forceinline__ static A a_of_parts(int, const uint32_t (&part)[kPartWords]) {
    return {{part[0], part[1]}};
  }
  __device__ __forceinline__ static void multiply(C& c, const A& a, const B& b) {
    mfma_16x16x16<T>(c.values, a.words, b.words);
  }
};

template <typename T>
struct MatrixTile<MatrixUnit::kWmma, 32, T> {
  struct A {
    uint32_t words[8];
  };
  using B = A;
  struct C {
    float values[8] = {};
  };
  static constexpr int kColumns = 1;
  static constexpr int kSameColumns = 16;

  __device__ static int row(int lane, int v) { return 2 * v + lane / 16; }
  __device__ static constexpr int slot(int) { return 0; }
  __device__ static int column(int lane, int) { return lane % 16; }

  template <typename At>
  __device__ __forceinline__ static A load_a(int lane, const At& at) {
    uint32_t first[4];
    uint32_t second[4];
    load_words(first, at(lane % 16, 0));
    load_words(second, at(lane % 16, 8));
    return {{first[0], first[1], first[2], first[3], second[0], second[1], second[2], second[3]}};
  }
  template <typename At>
  __device__ __forceinline__ static B load_b(int lane, const At& at) {
    return load_a(lane, at);
  }
  // Each half of the warp writes half of k.
  template <typename At>
  __device__ __forceinline__ static void store_b(int lane, const B& b, const At& at) {
    T* const to = at(lane % 16, lane / 16 * 8);
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[i] = lane < 16 ? b.words[i] : b.words[i + 4];
      finish_exchange(words[i]);
    }
    if (to != nullptr) store_words(to, words);
  }
  // The halves of the warp have the even rows of c and the odd ones.
  __device__ __forceinline__ static B as_b(int lane, const C& c) {
    B b;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t mine = pack_pair<T>(c.values[2 * i], c.values[2 * i + 1]);
      const uint32_t other = swap_halves(mine);
      const uint32_t even = lane < 16 ? mine : other;
      const uint32_t odd = lane < 16 ? other : mine;
      b.words[2 * i] = lower_halves(even, odd);
      b.words[2 * i + 1] = upper_halves(even, odd);
    }
    return b;
  }
  static constexpr int kParts = 2;
  static constexpr int kPartWords = 4;
  __device__ __forceinline__ static A a_of_parts(int lane, const uint32_t (&part)[kPartWords]) {
    A a;
#pragma unroll
    for (int i = 0; i < kPartWords; ++i) {
      const uint32_t other = swap_halves(part[i]);
      a.words[i] = lane < 16 ? part[i] : other;
      a.words[i + kPartWords] = lane < 16 ? other : part[i];
    }
    return a;
  }
  __device__ __forceinline__ static void multiply(C& c, const A& a, const B& b) {
    wmma_16x16x16<T>(c.values, a.words, b.words);
  }
};
#endif

#if !defined(ENCORE_GPU_HIP)
template <typename T>
struct MatrixTile<MatrixUnit::kMma, 32, T> {
  struct A {
    uint32_t words[4];
  };
  struct B {
    uint32_t words[4];  // columns 0 .. 7, then 8 .. 15
  };
  struct C {
    float values[8] = {};  // likewise
  };
  static constexpr int kColumns = 4;
  static constexpr int kSameColumns = 4;

  __device__ static int row(int lane, int v) { return lane / 4 + v / 2 % 2 * 8; }
  __device__ static constexpr int slot(int v) { return v % 2 + v / 4 * 2; }
  __device__ static int column(int lane, int s) { return lane % 4 * 2 + s % 2 + s / 2 * 8; }

  template <typename At>
  __device__ __forceinline__ static A load_a(int lane, const At& at) {
    A a;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      a.words[i] =
          *reinterpret_cast<const uint32_t*>(at(lane / 4 + i % 2 * 8, lane % 4 * 2 + i / 2 * 8));
    }
    return a;
  }
  template <typename At>
  __device__ __forceinline__ static B load_b(int lane, const At& at) {
    B b;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      b.words[i] =
          *reinterpret_cast<const uint32_t*>(at(lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2 * 8));
    }
    return b;
  }
  template <typename At>
  __device__ __forceinline__ static void store_b(int lane, const B& b, const At& at) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      T* const to = at(lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2 * 8);
      if (to != nullptr) *reinterpret_cast<uint32_t*>(to) = b.words[i];
    }
  }
  __device__ __forceinline__ static B as_b(int, const C& c) {
    B b;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      b.words[i] = transpose_matrix(pack_pair<T>(c.values[2 * i], c.values[2 * i + 1]));
    return b;
  }
  __device__ __forceinline__ static void multiply(C& c, const A& a, const B& b) {
    mma_16x8x16<T>(reinterpret_cast<float(&)[4]>(c.values[0]), a.words, b.words[0], b.words[1]);
    mma_16x8x16<T>(reinterpret_cast<float(&)[4]>(c.values[4]), a.words, b.words[2], b.words[3]);
  }
};
#endif

template <int W, typename T>
struct MatrixTile<MatrixUnit::kNone, W, T> {
  static constexpr int kRows = 256 / W;  // of c and a, of a lane
  struct A {
    uint32_t words[kRows][8];
  };
  struct B {
    uint32_t words[8];
  };
  struct C {
    float values[kRows] = {};
  };
  static constexpr int kColumns = 1;
  static constexpr int kSameColumns = 16;

  __device__ static int row(int lane, int v) { return lane / 16 * kRows + v; }
  __device__ static constexpr int slot(int) { return 0; }
  __device__ static int column(int lane, int) { return lane % 16; }

  template <typename At>
  __device__ __forceinline__ static A load_a(int lane, const At& at) {
    A a;
#pragma unroll
    for (int i = 0; i < kRows; ++i) load_row(a.words[i], row(lane, i), at);
    return a;
  }
  template <typename At>
  __device__ __forceinline__ static B load_b(int lane, const At& at) {
    B b;
    load_row(b.words, lane % 16, at);
    return b;
  }
  // Lanes with the same column share its k out among them.
  template <typename At>
  __device__ __forceinline__ static void store_b(int lane, const B& b, const At& at) {
    T* const to = at(lane % 16, lane / 16 * kRows);
    uint32_t words[kRows / 2];
#pragma unroll
    for (int i = 0; i < kRows / 2; ++i) {
      words[i] = b.words[i];
#pragma unroll
      for (int g = 1; g < W / 16; ++g)
        words[i] = lane / 16 == g ? b.words[g * kRows / 2 + i] : words[i];
    }
    if (to != nullptr) store_words(to, words);
  }
  __device__ __forceinline__ static B as_b(int lane, const C& c) {
    B b;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int pair = i % (kRows / 2) * 2;
      const uint32_t mine = pack_pair<T>(c.values[pair], c.values[pair + 1]);
      b.words[i] = shuffle<W>(mine, i / (kRows / 2) * 16 + lane % 16);
    }
    return b;
  }
  __device__ __forceinline__ static void multiply(C& c, const A& a, const B& b) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float low = low_of<T>(b.words[i]);
      const float high = high_of<T>(b.words[i]);
#pragma unroll
      for (int v = 0; v < kRows; ++v) {
        c.values[v] = fmaf(low_of<T>(a.words[v][i]), low, c.values[v]);
        c.values[v] = fmaf(high_of<T>(a.words[v][i]), high, c.values[v]);
      }
    }
  }

 private:
  template <typename At>
  __device__ __forceinline__ static void load_row(uint32_t (&words)[8], int row, const At& at) {
    uint32_t first[4];
    uint32_t second[4];
    load_words(first, at(row, 0));
    load_words(second, at(row, 8));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[i] = first[i];
      words[i + 4] = second[i];
    }
  }
};

}  // namespace encore::gpu
