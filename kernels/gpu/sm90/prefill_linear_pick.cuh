// Finding a kernel among those that a source file compiles.
#pragma once

#include "sm90/prefill_linear_kernel.cuh"
#include "sm90/prefill_linear_tuning.h"

namespace encore::gpu {

template <typename... Shapes>
PrefillForm find_prefill_among(const PrefillTuning& t) {
  PrefillForm found;
  auto is = [&]<typename S>() {
    if (t.tile_n != S::kTileN || t.split != S::kSplit || t.blocks_per_sm != S::kBlocksPerSm) {
      return false;
    }
    found = {prefill_linear_kernel<S>, S::kThreads, S::kBytes, S::kOutTileN};
    return true;
  };
  static_cast<void>((is.template operator()<Shapes>() || ...));
  return found;
}

}  // namespace encore::gpu
