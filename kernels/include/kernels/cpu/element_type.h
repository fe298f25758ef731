// Element types that the CPU kernels read and write. Numbers equal those of Encore's DType.
#pragma once

#include <cstdint>

namespace encore::kernels {

enum class ElementType : int32_t {
  kF32 = 1,
  kF16 = 2,
  kBF16 = 3,
  // Quantised, as laid out by GGUF: a row is a whole number of 32- or 256-element groups.
  kQ8_0 = 32,
  kQ4_0 = 33,
  kQ4_1 = 34,
  kQ4_K = 35,
  kQ5_K = 36,
  kQ6_K = 37,
};

}  // namespace encore::kernels
