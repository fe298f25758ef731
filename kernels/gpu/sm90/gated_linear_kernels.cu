#include "sm90/gated_linear_form.h"
#include "sm90/gated_linear_kernel.cuh"

namespace encore::gpu {
namespace {

template <int kTileN, int kRowBlocks>
constexpr GatedForm form() {
  using S = GatedShape<kTileN>;
  return {gated_linear_kernel<S>, S::kBytes, kTileN, kRowBlocks};
}

}  // namespace

std::span<const GatedForm> gated_forms() {
  // Pairs of blocks where rows fill them. What else was tried lost everywhere: narrower tiles,
  // copies of x for several blocks, a split k, two blocks on a multiprocessor.
  static const GatedForm forms[] = {form<256, 2>(), form<224, 2>(), form<224, 1>()};
  return forms;
}

}  // namespace encore::gpu
