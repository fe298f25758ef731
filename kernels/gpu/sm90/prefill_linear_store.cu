#include "sm90/prefill_linear_pick.cuh"

namespace encore::gpu {

template <int kTileN, int kSplit = 1, int kBlocksPerSm = 1>
using Shape = PrefillShape<kTileN, PrefillEpilogue::kStore, kSplit, kBlocksPerSm>;

PrefillForm find_prefill_store(const PrefillTuning& tuning) {
  return find_prefill_among<Shape<256>, Shape<192>, Shape<128>, Shape<192, 2>, Shape<192, 4>,
                            Shape<96, 2, 2>, Shape<128, 2, 2>, Shape<128, 4, 2>>(tuning);
}

}  // namespace encore::gpu
