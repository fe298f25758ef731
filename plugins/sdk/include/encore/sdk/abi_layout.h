// Which C++ structs of core are laid out exactly as their twins in backend_abi.h, so that arrays of
// them cross without a copy, and that enumerations carry the same numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "encore/backend.h"
#include "encore/backend_abi.h"
#include "encore/forward_batch.h"

namespace encore::sdk {

// True for the pairs below, whose every offset is compared.
template <typename T, typename AbiT>
inline constexpr bool kSameLayout = false;

// Types and fields cannot be in parentheses. NOLINTBEGIN(bugprone-macro-parentheses)
#define ENCORE_SAME_FIELD(type, abi_type, field)         \
  (offsetof(type, field) == offsetof(abi_type, field) && \
   sizeof(static_cast<type*>(nullptr)->field) == sizeof(static_cast<abi_type*>(nullptr)->field))
// NOLINTEND(bugprone-macro-parentheses)

template <>
inline constexpr bool kSameLayout<RowSampling, encore_row_sampling> =
    sizeof(RowSampling) == sizeof(encore_row_sampling) &&
    ENCORE_SAME_FIELD(RowSampling, encore_row_sampling, temperature) &&
    ENCORE_SAME_FIELD(RowSampling, encore_row_sampling, top_p) &&
    ENCORE_SAME_FIELD(RowSampling, encore_row_sampling, min_p) &&
    ENCORE_SAME_FIELD(RowSampling, encore_row_sampling, repetition_penalty) &&
    ENCORE_SAME_FIELD(RowSampling, encore_row_sampling, presence_penalty) &&
    ENCORE_SAME_FIELD(RowSampling, encore_row_sampling, frequency_penalty) &&
    ENCORE_SAME_FIELD(RowSampling, encore_row_sampling, top_k) &&
    ENCORE_SAME_FIELD(RowSampling, encore_row_sampling, num_logprobs) &&
    ENCORE_SAME_FIELD(RowSampling, encore_row_sampling, seed) &&
    ENCORE_SAME_FIELD(RowSampling, encore_row_sampling, position);

template <>
inline constexpr bool kSameLayout<TokenBias, encore_token_bias> =
    sizeof(TokenBias) == sizeof(encore_token_bias) &&
    ENCORE_SAME_FIELD(TokenBias, encore_token_bias, token) &&
    ENCORE_SAME_FIELD(TokenBias, encore_token_bias, bias);

template <>
inline constexpr bool kSameLayout<TokenCount, encore_token_count> =
    sizeof(TokenCount) == sizeof(encore_token_count) &&
    ENCORE_SAME_FIELD(TokenCount, encore_token_count, token) &&
    ENCORE_SAME_FIELD(TokenCount, encore_token_count, in_prompt) &&
    ENCORE_SAME_FIELD(TokenCount, encore_token_count, in_output);

template <>
inline constexpr bool kSameLayout<PageCopy, encore_page_copy> =
    sizeof(PageCopy) == sizeof(encore_page_copy) &&
    ENCORE_SAME_FIELD(PageCopy, encore_page_copy, source) &&
    ENCORE_SAME_FIELD(PageCopy, encore_page_copy, destination);

#undef ENCORE_SAME_FIELD

static_assert(static_cast<int32_t>(DType::kU8) == ENCORE_DTYPE_U8);
static_assert(static_cast<int32_t>(DType::kQ8_0) == ENCORE_DTYPE_Q8_0);
static_assert(static_cast<int32_t>(DType::kQ6_K) == ENCORE_DTYPE_Q6_K);
static_assert(static_cast<int32_t>(OptionType::kEnum) == ENCORE_OPTION_ENUM);
static_assert(static_cast<int32_t>(PrefillMode::kBreakable) == ENCORE_PREFILL_BREAKABLE);
static_assert(static_cast<int32_t>(RopeStyle::kAdjacentPairs) == ENCORE_ROPE_ADJACENT_PAIRS);
static_assert(static_cast<int32_t>(RowStatus::kNonFinite) == ENCORE_ROW_NON_FINITE);
static_assert(static_cast<int32_t>(Reason::kUnsupported) == ENCORE_REASON_UNSUPPORTED);
static_assert(kNumReasons == ENCORE_REASON_UNSUPPORTED + 1);
static_assert(kCapabilityEager == ENCORE_CAPABILITY_EAGER);
static_assert(kCapabilityPrefillFull == ENCORE_CAPABILITY_PREFILL_FULL);
static_assert(kCapabilityPrefillBreakable == ENCORE_CAPABILITY_PREFILL_BREAKABLE);
static_assert(kCapabilityDecodeGraph == ENCORE_CAPABILITY_DECODE_GRAPH);
static_assert(kCapabilityCollectives == ENCORE_CAPABILITY_COLLECTIVES);

}  // namespace encore::sdk
