// Attention over scattered pages: a request whose scores are all equal, so that the result is the
// mean of the values, and one where a single position outweighs all others.
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "host_memory.h"
#include "kernels/cpu/attention.h"
#include "selftest_parts.h"

namespace encore::cpu {
namespace {

constexpr kernels::KvLayout kLayout = {kernels::WeightType::kF32, 2, 24, 16};
constexpr int32_t kHeads = 6;
constexpr int64_t kRow = int64_t{kHeads} * kLayout.head_dim;
constexpr int32_t kLongContext = 301;  // two splits, the second not whole
constexpr int32_t kLongPages = 19;
constexpr int32_t kChunk = 5;  // a prefill chunk, after no cached token
constexpr int32_t kPages = kLongPages + 1;
constexpr int32_t kChosen = 2;  // the position that outweighs the others of the chunk

// Of one dimension: the position, scaled by what head and dimension it is.
float value_at(int32_t position, int32_t kv_head, int32_t dim) {
  return static_cast<float>(position * (1 + kv_head * kLayout.head_dim + dim));
}

struct Cache {
  std::unique_ptr<MappedBlock> pages;
  std::vector<int32_t> page_ids;  // falling, so that a context is not contiguous

  float* page_of(int32_t index) {
    return reinterpret_cast<float*>(pages->data() +
                                    page_ids[static_cast<size_t>(index)] * kLayout.page_bytes());
  }
  void write(int32_t first_page, int32_t position, float key) {
    float* page = page_of(first_page + position / kLayout.page_size);
    const int32_t offset = position % kLayout.page_size;
    for (int32_t head = 0; head < kLayout.num_kv_heads; ++head) {
      for (int32_t dim = 0; dim < kLayout.head_dim; ++dim) {
        page[kLayout.key_offset(head, dim, offset)] = key;
        page[kLayout.value_offset(head, offset, dim)] = value_at(position, head, dim);
      }
    }
  }
};

Result<Cache> make_cache() {
  Cache cache;
  ENCORE_ASSIGN_OR_RETURN(cache.pages,
                          MappedBlock::create(kPages * kLayout.page_bytes(), "self-test"));
  for (int32_t i = 0; i < kPages; ++i) cache.page_ids.push_back(kPages - 1 - i);
  for (int32_t position = 0; position < kLongContext; ++position) cache.write(0, position, 0.0F);
  for (int32_t position = 0; position < kChunk; ++position) {
    cache.write(kLongPages, position, position == kChosen ? 4.0F : 0.0F);
  }
  return cache;
}

// The mean of the positions that row `row` attends to, with those weights.
double mean_position(int32_t row) {
  if (row == 0) return (kLongContext - 1) / 2.0;
  const int32_t own = row - 1;
  return own < kChosen ? own / 2.0 : static_cast<double>(kChosen);
}

}  // namespace

Status test_attention(ThreadTeam& team, kernels::IsaLevel level) {
  ENCORE_ASSIGN_OR_RETURN(Cache cache, make_cache());
  const int32_t requests = 2;
  const std::array<int32_t, 3> q_start = {0, 1, 1 + kChunk};
  const std::array<int32_t, 2> kv_len = {kLongContext, kChunk};
  const std::array<int32_t, 3> page_start = {0, kLongPages, kPages};
  // The chosen position's score is 96, all others 0.
  const std::vector<float> q(static_cast<size_t>((1 + kChunk) * kRow), 1.0F);
  std::vector<float> out(q.size());
  const int64_t workspace_bytes =
      kernels::attention_workspace_bytes(kLayout, kHeads, kLongContext, team.size());
  ENCORE_ASSIGN_OR_RETURN(auto workspace, MappedBlock::create(workspace_bytes, "self-test"));
  team.reserve_scratch(kernels::attention_scratch_bytes(kLayout, kHeads));
  const kernels::AttentionArgs args{&requests,
                                    q_start.data(),
                                    kv_len.data(),
                                    page_start.data(),
                                    cache.page_ids.data(),
                                    q.data(),
                                    kRow,
                                    out.data(),
                                    kRow,
                                    {cache.pages->data(), kLayout.page_bytes(), kLayout},
                                    kHeads,
                                    1.0F,
                                    reinterpret_cast<float*>(workspace->data()),
                                    workspace_bytes};
  team.run(kernels::attention_kernel(level), args);
  for (int64_t i = 0; i < static_cast<int64_t>(out.size()); ++i) {
    const auto row = static_cast<int32_t>(i / kRow);
    const auto head = static_cast<int32_t>(i % kRow / kLayout.head_dim);
    const int32_t kv_head = head / (kHeads / kLayout.num_kv_heads);
    const auto dim = static_cast<int32_t>(i % kLayout.head_dim);
    const double expected = mean_position(row) * static_cast<double>(value_at(1, kv_head, dim));
    ENCORE_RETURN_IF_ERROR(expect_near("attention", i,
                                       static_cast<double>(out[static_cast<size_t>(i)]), expected,
                                       1e-5 * expected));
  }
  return {};
}

}  // namespace encore::cpu
