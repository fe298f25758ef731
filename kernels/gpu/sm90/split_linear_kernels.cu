#include "sm90/split_linear_form.h"
#include "sm90/split_linear_kernel.cuh"

namespace encore::gpu {
namespace {

template <int kTileN, int kParts>
constexpr SplitForm form() {
  using S = SplitShape<kTileN, kParts>;
  return {split_linear_kernel<S>, sizeof(SplitMemory<S>), kTileN, kParts};
}

}  // namespace

std::span<const SplitForm> split_forms() {
  // On 132 multiprocessors clusters of two take 128 where n is 3072, 4096 or 6144. Clusters of four
  // find room for 29, not for 31, whence 72 and 144 for 2048 and 4096. What else was tried lost
  // everywhere: copies of x for several blocks, k in one part or in three (clusters of three find
  // no more room than those of four), wider tiles.
  static const SplitForm forms[] = {form<48, 2>(), form<64, 2>(), form<96, 2>(), form<72, 4>(),
                                    form<144, 4>()};
  return forms;
}

}  // namespace encore::gpu
