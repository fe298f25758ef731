// Attention in plain C++: the specification of the arithmetic.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "attention_levels.h"
#include "attention_run.h"
#include "kernels/cpu/quant.h"

namespace encore::kernels {
namespace {

constexpr int32_t kLanes = 16;

float load_element(WeightType type, const std::byte* page, int64_t element) {
  switch (type) {
    case WeightType::kF16:
      return f16_to_f32(reinterpret_cast<const uint16_t*>(page)[element]);
    case WeightType::kBF16:
      return bf16_to_f32(reinterpret_cast<const uint16_t*>(page)[element]);
    default:
      return reinterpret_cast<const float*>(page)[element];
  }
}

const std::byte* page_of(const TileView& view, int32_t position) {
  const int64_t page = view.page_ids[position / view.kv->layout.page_size];
  return view.kv->pages + page * view.kv->page_stride_bytes;
}

float score(const TileView& view, const float* q, int32_t position) {
  const KvLayout& layout = view.kv->layout;
  const std::byte* page = page_of(view, position);
  const int32_t offset = position % layout.page_size;
  float sum = 0.0F;
  for (int32_t d = 0; d < layout.head_dim; ++d) {
    sum += q[d] * load_element(layout.type, page, layout.key_offset(view.tile.kv_head, d, offset));
  }
  return sum;
}

// Lanes are added in pairs half a vector apart: i with i + 8, then 4, 2, 1.
float add_lanes(float* lanes) {
  for (int32_t half = kLanes / 2; half > 0; half /= 2) {
    for (int32_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

struct ReferenceEngine {
  static constexpr int32_t kRows = 1;

  static float exp2(float x) { return std::exp2(x); }

  static void partial(const TileView& view, int32_t row, int32_t /*rows*/, int32_t split,
                      float* const* out) {
    const KvLayout& layout = view.kv->layout;
    const int32_t head_dim = layout.head_dim;
    const float* q = view.q + row * head_dim;
    const int32_t begin = split * kAttentionSplit;
    const int32_t end = std::min(begin + kAttentionSplit, view.tile.limit(row));
    float maximum = -std::numeric_limits<float>::infinity();
    for (int32_t p = begin; p < end; ++p) {
      view.scores[p - begin] = score(view, q, p);
      maximum = std::max(maximum, view.scores[p - begin]);
    }
    float* sums = out[0];
    std::fill_n(sums, head_dim, 0.0F);
    float lanes[kLanes] = {};
    for (int32_t p = begin; p < end; ++p) {
      const float weight = std::exp2(view.scores[p - begin] - maximum);
      lanes[p % kLanes] += weight;
      const std::byte* page = page_of(view, p);
      const int64_t v = layout.value_offset(view.tile.kv_head, p % layout.page_size, 0);
      for (int32_t d = 0; d < head_dim; ++d) {
        sums[d] += weight * load_element(layout.type, page, v + d);
      }
    }
    sums[head_dim] = maximum;
    sums[head_dim + 1] = add_lanes(lanes);
  }
};

}  // namespace

void attention_reference(const AttentionArgs& args, const Worker& worker) {
  run_attention<ReferenceEngine>(args, worker);
}

}  // namespace encore::kernels
