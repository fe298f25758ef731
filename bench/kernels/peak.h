// What the machine can do at best: loops that only multiply.
#pragma once

#include <cstdint>

namespace encore::kernels {

// `steps` rounds of independent dot-product instructions, and the operations that they are (two a
// multiply-add). REQUIRES: AVX-512 VNNI; AVX512_BF16.
uint64_t int16_loop(int64_t steps);
uint64_t bf16_loop(int64_t steps);
int64_t int16_loop_ops(int64_t steps);
int64_t bf16_loop_ops(int64_t steps);

}  // namespace encore::kernels
