// The list of kernels, included by one source file a token tile.
#pragma once

#include "sm90/decode_linear_kernel.cuh"
#include "sm90/decode_linear_pick.h"

namespace encore::gpu {

template <typename S>
bool is_form(const DecodeForm& form) {
  return form.epilogue == S::kEpilogue && form.direct == S::kDirect &&
         form.warpgroups == S::kWarpgroups && form.tiles == S::kTiles && form.sets == S::kSets;
}

template <typename... Shapes>
DecodeKernel pick_among(const DecodeForm& form) {
  DecodeKernel found = nullptr;
  static_cast<void>(
      ((is_form<Shapes>(form) && (found = decode_linear_kernel<Shapes>, true)) || ...));
  return found;
}

template <int kTokens, DecodeEpilogue kEpilogue, int kWarpgroups, int kTiles, int kSets>
using DirectShape = DecodeShape<kTokens, kEpilogue, true, kWarpgroups, kTiles, kSets>;
template <int kTokens, DecodeEpilogue kEpilogue, int kWarpgroups>
using ExchangeShape = DecodeShape<kTokens, kEpilogue, false, kWarpgroups, 1, 1>;

template <int kTokens>
DecodeKernel pick_decode_kernel(const DecodeForm& form) {
  using E = DecodeEpilogue;
  return pick_among<
      DirectShape<kTokens, E::kStore, 1, 1, 1>, DirectShape<kTokens, E::kStore, 1, 2, 2>,
      DirectShape<kTokens, E::kStore, 2, 2, 1>, DirectShape<kTokens, E::kSiluMul, 1, 2, 1>,
      DirectShape<kTokens, E::kSiluMul, 1, 2, 2>, DirectShape<kTokens, E::kSiluMul, 2, 2, 1>,
      ExchangeShape<kTokens, E::kStore, 1>, ExchangeShape<kTokens, E::kStore, 2>,
      ExchangeShape<kTokens, E::kSiluMul, 2>, ExchangeShape<kTokens, E::kAdd, 1>,
      ExchangeShape<kTokens, E::kAdd, 2>>(form);
}

}  // namespace encore::gpu
