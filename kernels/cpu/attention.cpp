#include "kernels/cpu/attention.h"

#include "attention_levels.h"
#include "attention_tiles.h"
#include "built_level.h"

namespace encore::kernels {

AttentionKernel attention_kernel(IsaLevel level) {
  if constexpr (kBuiltLevel >= IsaLevel::kAvx512) {
    if (level >= IsaLevel::kAvx512) return attention_avx512;
  }
  if constexpr (kBuiltLevel >= IsaLevel::kAvx2) {
    if (level >= IsaLevel::kAvx2) return attention_avx2;
  }
  return attention_reference;
}

int64_t attention_workspace_bytes(const KvLayout& layout, int32_t num_heads, int32_t max_context,
                                  int32_t num_threads) {
  if (num_threads <= 1) return 0;
  const int64_t splits =
      (static_cast<int64_t>(max_context) + kAttentionSplit - 1) / kAttentionSplit;
  const int64_t rows = splittable_rows(num_heads / layout.num_kv_heads);
  const int64_t bytes =
      splits * rows * partial_stride(layout.head_dim) * static_cast<int64_t>(sizeof(float));
  return (bytes + 63) / 64 * 64 * num_threads;
}

size_t attention_scratch_bytes(const KvLayout& layout, int32_t /*num_heads*/) {
  const int64_t floats = kMaxTileRows * (layout.head_dim + partial_stride(layout.head_dim)) +
                         8 * (partial_stride(layout.head_dim) + kAttentionSplit);
  return static_cast<size_t>(floats) * sizeof(float);
}

}  // namespace encore::kernels
