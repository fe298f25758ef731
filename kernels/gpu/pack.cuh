// bf16 values that one access moves (eight are 16 bytes), and their f32 values.
#pragma once

#include "vendor.h"

namespace encore::gpu {

template <int N>
struct alignas(2 * N) Pack {
  bf16 values[N];
};
using Pack8 = Pack<8>;

template <int N>
__device__ inline Pack<N> load_pack(const bf16* from) {
  return *reinterpret_cast<const Pack<N>*>(from);
}
template <int N>
__device__ inline void store_pack(bf16* to, const Pack<N>& pack) {
  *reinterpret_cast<Pack<N>*>(to) = pack;
}
__device__ inline Pack8 load8(const bf16* from) { return load_pack<8>(from); }
__device__ inline void store8(bf16* to, const Pack8& pack) { store_pack(to, pack); }

template <int N>
__device__ inline void unpack(const Pack<N>& pack, float (&values)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = to_float(pack.values[i]);
}

// Nearest even.
template <int N>
__device__ inline Pack<N> pack_of(const float (&values)[N]) {
  Pack<N> pack;
  if constexpr (N % 2 == 0) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      const bf16x2 both = to_bf16x2(values[i], values[i + 1]);
      pack.values[i] = both.x;
      pack.values[i + 1] = both.y;
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) pack.values[i] = to_bf16(values[i]);
  }
  return pack;
}

}  // namespace encore::gpu
