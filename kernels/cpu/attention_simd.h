// The attention engine over a Vector: a block of rows against one split of keys and values.
// Include after the vector's header.
//
// Each row's sums are kept in its own lanes and run in the order that attention.h fixes, whatever
// number of rows or positions a micro-kernel takes at once: that is what makes decode and prefill
// agree bit for bit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "attention_levels.h"
#include "attention_run.h"
#include "vector_exp.h"

namespace encore::kernels {
namespace {

inline constexpr int32_t kSpan = 16;  // positions that are neighbours in every page
inline constexpr int32_t kVectorsASpan = kSpan / Vector::kLanes;
// Rows times vectors of keys (or values) that stay in registers.
inline constexpr int32_t kBlockRows = Vector::kLanes == 16 ? 6 : 3;
inline constexpr int32_t kBlockVectors = 4;
inline constexpr int32_t kBlockSpans = kBlockVectors / kVectorsASpan;

struct LoadF32 {
  using Element = float;
  static Vector::F load(const float* p) { return Vector::load(p); }
  static Vector::F load_eight(const float* p) { return Vector::load_first(p, 8); }
};

struct LoadF16 {
  using Element = uint16_t;
  static Vector::F load(const uint16_t* p) { return Vector::load_f16(p); }
  static Vector::F load_eight(const uint16_t* p) { return Vector::load_eight_f16(p); }
};

struct LoadBf16 {
  using Element = uint16_t;
  static Vector::F load(const uint16_t* p) { return Vector::load_bf16(p); }
  static Vector::F load_eight(const uint16_t* p) { return Vector::load_eight_bf16(p); }
};

// A span's keys, or its values, as head_dim rows of 16 elements.
template <typename Element>
struct SpanRows {
  const Element* first;
  int64_t stride;
};

// The pages of one split of one KV head.
template <typename Load>
struct SplitPages {
  using Element = typename Load::Element;
  const KvPages& kv;
  const int32_t* page_ids;
  int32_t first_position;
  int64_t key_base;  // of the KV head, elements from the start of a page
  int64_t value_base;
  int32_t page_size;
  int32_t head_dim;
  int32_t spans;       // of this split
  int32_t tile_spans;  // of this split and those after it

  SplitPages(const TileView& view, int32_t split)
      : kv(*view.kv),
        page_ids(view.page_ids),
        first_position(split * kAttentionSplit),
        key_base(kv.layout.key_offset(view.tile.kv_head, 0, 0)),
        value_base(kv.layout.value_offset(view.tile.kv_head, 0, 0)),
        page_size(kv.layout.page_size),
        head_dim(kv.layout.head_dim),
        spans(0),
        tile_spans((view.tile.kv_end() - first_position + kSpan - 1) / kSpan) {
    spans = std::min(tile_spans, kAttentionSplit / kSpan);
  }

  const Element* page(int32_t position) const {
    const int64_t id = page_ids[position / page_size];
    return reinterpret_cast<const Element*>(kv.pages + id * kv.page_stride_bytes);
  }
  // Keys of span `s` of the split: row d is head_dim's element d of 16 positions.
  const Element* keys(int32_t s) const {
    const int32_t position = first_position + s * kSpan;
    return page(position) + key_base + position % page_size;
  }
  // Values of span `s`: 16 rows of head_dim.
  const Element* values(int32_t s) const {
    const int32_t position = first_position + s * kSpan;
    return page(position) + value_base + static_cast<int64_t>(position % page_size) * head_dim;
  }
  // What is used i spans after the first: keys of the split, its values, keys of the next split.
  SpanRows<Element> in_order_of_use(int32_t i) const {
    if (i < spans) return {keys(i), page_size};
    if (i < 2 * spans) return {values(i - spans), kSpan};
    return {keys(std::min(i - spans, tile_spans - 1)), page_size};
  }
};

// Few rows use a key or value once and wait for memory: they fetch ahead. Many find it in cache.
template <int32_t kRows>
inline constexpr bool kFetchesAhead = kRows <= kBlockRows / 2;
inline constexpr int32_t kSpansAhead = 4;

// Fetches rows [begin, end) of 16 elements of a span. Contiguous rows share cache lines: those that
// do not start one are skipped.
template <typename Element>
void fetch_rows(const SpanRows<Element>& span, int32_t begin, int32_t end) {
  constexpr auto kRowsALine = static_cast<int32_t>(64 / (kSpan * sizeof(Element)));
  const int32_t skip = span.stride == kSpan ? kRowsALine - 1 : 0;
  for (int32_t row = begin; row < end; ++row) {
    if ((row & skip) == 0) __builtin_prefetch(span.first + row * span.stride);
  }
}

// scores[r][16 s ..] = q[r] . k for kSpans spans from `s` on.
template <typename Load, int32_t kRows, int32_t kSpans>
void score_spans(const SplitPages<Load>& pages, const float* q, int32_t s, float* scores) {
  using V = Vector;
  constexpr int32_t kVectors = kSpans * kVectorsASpan;
  const typename Load::Element* keys[kSpans];
  SpanRows<typename Load::Element> ahead[kSpans];
  for (int32_t i = 0; i < kSpans; ++i) {
    keys[i] = pages.keys(s + i);
    ahead[i] = pages.in_order_of_use(s + kSpansAhead + i);
  }
  V::F sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int32_t v = 0; v < kVectors; ++v) sums[r][v] = V::zero();
  }
  const int32_t head_dim = pages.head_dim;
  const int64_t stride = pages.page_size;
  for (int32_t d = 0; d < head_dim; ++d) {
    if constexpr (kFetchesAhead<kRows>) {
#pragma GCC unroll 8
      for (int32_t i = 0; i < kSpans; ++i) fetch_rows(ahead[i], d, d + 1);
    }
    V::F k[kVectors];
#pragma GCC unroll 8
    for (int32_t v = 0; v < kVectors; ++v) {
      k[v] = Load::load(keys[v / kVectorsASpan] + d * stride + v % kVectorsASpan * V::kLanes);
    }
#pragma GCC unroll 8
    for (int32_t r = 0; r < kRows; ++r) {
      const V::F x = V::set(q[r * head_dim + d]);
#pragma GCC unroll 8
      for (int32_t v = 0; v < kVectors; ++v) sums[r][v] = V::fma(x, k[v], sums[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int32_t v = 0; v < kVectors; ++v) {
      V::store(scores + r * kAttentionSplit + s * kSpan + v * V::kLanes, sums[r][v]);
    }
  }
}

struct RowSoftmax {
  float maximum;
  float sum;
};

// Turns scores[0 .. visible) into exp2(score - maximum), and [visible, padded) into 0.
inline RowSoftmax softmax(float* scores, int32_t visible, int32_t padded) {
  using V = Vector;
  V::F highest = V::set(-std::numeric_limits<float>::infinity());
  for (int32_t i = 0; i < visible; i += V::kLanes) {
    V::F x = V::load(scores + i);
    if (visible - i < V::kLanes) {
      x = V::replace_from(x, visible - i, -std::numeric_limits<float>::infinity());
      V::store(scores + i, x);
    }
    highest = V::max(x, highest);
  }
  const float maximum = V::highest(highest);
  const V::F top = V::set(maximum);
  V::F sums[kVectorsASpan];
  for (V::F& sum : sums) sum = V::zero();
  int32_t i = 0;
  for (; i < visible; i += kSpan) {
    for (int32_t v = 0; v < kVectorsASpan; ++v) {
      float* p = scores + i + v * V::kLanes;
      const bool seen = i + v * V::kLanes < visible;
      const V::F weight = seen ? exp2(V::sub(V::load(p), top)) : V::zero();
      V::store(p, weight);
      sums[v] = V::add(sums[v], weight);
    }
  }
  for (; i < padded; i += V::kLanes) V::store(scores + i, V::zero());
  if constexpr (kVectorsASpan == 2) sums[0] = V::add(sums[0], sums[1]);
  return {maximum, V::sum(sums[0])};
}

// out[r][column .. column + columns) = sum over positions of weight * value.
// columns is kVectors vectors, or 8: the end of a head_dim that is an odd multiple of 8.
template <typename Load, int32_t kRows, int32_t kVectors, bool kEight = false>
void weigh_values(const SplitPages<Load>& pages, const float* weights, int32_t positions,
                  int32_t column, float* const* out) {
  using V = Vector;
  V::F sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int32_t v = 0; v < kVectors; ++v) sums[r][v] = V::zero();
  }
  for (int32_t begin = 0; begin < positions; begin += kSpan) {
    const typename Load::Element* row = pages.values(begin / kSpan) + column;
    const int32_t end = std::min(begin + kSpan, positions);
    const auto ahead = pages.in_order_of_use(pages.spans + begin / kSpan + kSpansAhead);
    for (int32_t j = begin; j < end; ++j, row += pages.head_dim) {
      if constexpr (kFetchesAhead<kRows>) {
        const int32_t part = j - begin;
        if (column == 0) {
          fetch_rows(ahead, pages.head_dim * part / kSpan, pages.head_dim * (part + 1) / kSpan);
        }
      }
      V::F value[kVectors];
#pragma GCC unroll 8
      for (int32_t v = 0; v < kVectors; ++v) {
        value[v] = kEight ? Load::load_eight(row) : Load::load(row + v * V::kLanes);
      }
#pragma GCC unroll 8
      for (int32_t r = 0; r < kRows; ++r) {
        const V::F weight = V::set(weights[r * kAttentionSplit + j]);
#pragma GCC unroll 8
        for (int32_t v = 0; v < kVectors; ++v) sums[r][v] = V::fma(weight, value[v], sums[r][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int32_t v = 0; v < kVectors; ++v) {
      V::store_first(out[r] + column + v * V::kLanes, kEight ? 8 : V::kLanes, sums[r][v]);
    }
  }
}

template <typename Load, int32_t kRows>
void partial_rows(const TileView& view, int32_t row, int32_t split, float* const* out) {
  const SplitPages<Load> pages(view, split);
  const int32_t head_dim = pages.head_dim;
  const float* q = view.q + row * head_dim;
  const int32_t visible = view.tile.limit(row + kRows - 1) - pages.first_position;
  const int32_t positions = std::min(kAttentionSplit, visible);
  const int32_t spans = (positions + kSpan - 1) / kSpan;  // that some row sees
  int32_t s = 0;
  for (; s + kBlockSpans <= spans; s += kBlockSpans) {
    score_spans<Load, kRows, kBlockSpans>(pages, q, s, view.scores);
  }
  for (; s < spans; ++s) score_spans<Load, kRows, 1>(pages, q, s, view.scores);

  for (int32_t r = 0; r < kRows; ++r) {
    const int32_t own = view.tile.limit(row + r) - pages.first_position;
    const RowSoftmax row_softmax = softmax(view.scores + r * kAttentionSplit,
                                           std::clamp(own, 0, kAttentionSplit), spans * kSpan);
    out[r][head_dim] = row_softmax.maximum;
    out[r][head_dim + 1] = row_softmax.sum;
  }

  constexpr int32_t kBlockColumns = kBlockVectors * Vector::kLanes;
  int32_t column = 0;
  for (; column + kBlockColumns <= head_dim; column += kBlockColumns) {
    weigh_values<Load, kRows, kBlockVectors>(pages, view.scores, positions, column, out);
  }
  for (; column + Vector::kLanes <= head_dim; column += Vector::kLanes) {
    weigh_values<Load, kRows, 1>(pages, view.scores, positions, column, out);
  }
  if (column < head_dim) {
    weigh_values<Load, kRows, 1, true>(pages, view.scores, positions, column, out);
  }
}

template <typename Load>
void partial_any(const TileView& view, int32_t row, int32_t rows, int32_t split,
                 float* const* out) {
  static_assert(kBlockRows == 3 || kBlockRows == 6);
  if constexpr (kBlockRows == 6) {
    if (rows == 6) return partial_rows<Load, 6>(view, row, split, out);
    if (rows == 5) return partial_rows<Load, 5>(view, row, split, out);
    if (rows == 4) return partial_rows<Load, 4>(view, row, split, out);
  }
  if (rows == 3) return partial_rows<Load, 3>(view, row, split, out);
  if (rows == 2) return partial_rows<Load, 2>(view, row, split, out);
  return partial_rows<Load, 1>(view, row, split, out);
}

struct SimdEngine {
  static constexpr int32_t kRows = kBlockRows;

  static float exp2(float x) {
    float lanes[Vector::kLanes];
    Vector::store(lanes, kernels::exp2(Vector::set(x)));
    return lanes[0];
  }

  static void partial(const TileView& view, int32_t row, int32_t rows, int32_t split,
                      float* const* out) {
    switch (view.kv->layout.type) {
      case WeightType::kF16:
        return partial_any<LoadF16>(view, row, rows, split, out);
      case WeightType::kBF16:
        return partial_any<LoadBf16>(view, row, rows, split, out);
      default:
        return partial_any<LoadF32>(view, row, rows, split, out);
    }
  }
};

}  // namespace
}  // namespace encore::kernels
