#include "sm90/prefill_linear_pick.cuh"

namespace encore::gpu {

template <int kTileN, int kSplit = 1, int kBlocksPerSm = 1>
using Shape = PrefillShape<kTileN, PrefillEpilogue::kSiluMul, kSplit, kBlocksPerSm>;

PrefillForm find_prefill_silu_mul(const PrefillTuning& tuning) {
  return find_prefill_among<Shape<256>, Shape<224>, Shape<128>, Shape<128, 1, 2>>(tuning);
}

}  // namespace encore::gpu
