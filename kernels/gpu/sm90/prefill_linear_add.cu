#include "sm90/prefill_linear_pick.cuh"

namespace encore::gpu {

template <int kTileN, int kSplit = 1, int kBlocksPerSm = 1>
using Shape = PrefillShape<kTileN, PrefillEpilogue::kAdd, kSplit, kBlocksPerSm>;

PrefillForm find_prefill_add(const PrefillTuning& tuning) {
  return find_prefill_among<Shape<256>, Shape<128>, Shape<256, 2>, Shape<256, 4>, Shape<128, 2>,
                            Shape<128, 4>, Shape<128, 2, 2>, Shape<128, 4, 2>>(tuning);
}

}  // namespace encore::gpu
