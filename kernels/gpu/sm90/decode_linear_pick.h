// Which kernel serves a form of the weight-streaming product. One source file a token tile, so that
// they compile side by side.
#pragma once

#include <cuda.h>

#include "kernels/gpu/decode_linear.h"

namespace encore::gpu {

struct DecodeParams;
using DecodeKernel = void (*)(CUtensorMap, CUtensorMap, DecodeParams);

// What selects a kernel besides the token tile; see DecodeShape.
struct DecodeForm {
  DecodeEpilogue epilogue = DecodeEpilogue::kStore;
  bool direct = false;
  int warpgroups = 1;  // of a set
  int tiles = 1;       // of a warpgroup
  int sets = 1;
};

// Null where there is none. kTokens: 8, 16, 32, 64.
template <int kTokens>
DecodeKernel pick_decode_kernel(const DecodeForm& form);

}  // namespace encore::gpu
