// Rotation by quarter turns, which only swaps and negates, and the write into the cache.
#include <array>
#include <numbers>
#include <string>
#include <vector>

#include "host_memory.h"
#include "kernels/cpu/rope.h"
#include "selftest_parts.h"

namespace encore::cpu {
namespace {

constexpr kernels::KvLayout kLayout = {kernels::WeightType::kF16, 1, 24, 16};
constexpr int32_t kHeads = 2;
constexpr int32_t kRotary = 16;
constexpr int32_t kTokens = 4;  // at positions 0 .. 3 of one request, on page 1
constexpr int64_t kRow = (kHeads + 2) * kLayout.head_dim;

// Small integers: exact as f16, and no two of a head alike.
float input_at(int32_t token, int64_t element) {
  return static_cast<float>(token * 200 + element + 1);
}

// Element `i` of a head that starts at `head` of the row, after `token` quarter turns.
float turned(int32_t token, int64_t head, int32_t i) {
  if (i >= kRotary) return input_at(token, head + i);
  const int32_t pairs = kRotary / 2;
  const bool first = i < pairs;
  const float own = input_at(token, head + i);
  const float other = input_at(token, head + (first ? i + pairs : i - pairs));
  const std::array<float, 4> turns = {own, first ? -other : other, -own, first ? other : -other};
  return turns[static_cast<size_t>(token)];
}

}  // namespace

Status test_rope(ThreadTeam& team, kernels::IsaLevel level) {
  const int32_t tokens = kTokens;
  const int32_t requests = 1;
  const std::array<int32_t, kTokens> positions = {0, 1, 2, 3};
  const std::array<int32_t, 2> q_start = {0, kTokens};
  const std::array<int32_t, 2> page_start = {0, 1};
  const std::array<int32_t, 1> page_ids = {1};
  std::array<float, kRotary / 2> inv_freq;
  inv_freq.fill(std::numbers::pi_v<float> / 2.0F);
  std::vector<float> cos_sin(static_cast<size_t>(kTokens) * kRotary);
  std::array<int32_t, kTokens> slots{};
  const kernels::StepTablesArgs tables{&tokens,
                                       &requests,
                                       positions.data(),
                                       q_start.data(),
                                       page_start.data(),
                                       page_ids.data(),
                                       inv_freq.data(),
                                       1.0F,
                                       kRotary,
                                       kLayout.page_size,
                                       2,
                                       cos_sin.data(),
                                       slots.data()};
  team.run(kernels::step_tables, tables);
  ENCORE_ASSIGN_OR_RETURN(auto pages, MappedBlock::create(2 * kLayout.page_bytes(), "self-test"));
  std::vector<float> qkv(static_cast<size_t>(kTokens * kRow));
  for (int32_t token = 0; token < kTokens; ++token) {
    for (int64_t i = 0; i < kRow; ++i) {
      qkv[static_cast<size_t>(token * kRow + i)] = input_at(token, i);
    }
  }
  std::vector<float> q(static_cast<size_t>(kTokens) * kHeads * kLayout.head_dim);
  kernels::RopeKvArgs args{};
  args.num_tokens = &tokens;
  args.qkv = qkv.data();
  args.qkv_stride = kRow;
  args.q_out = q.data();
  args.q_out_stride = kHeads * kLayout.head_dim;
  args.pairing = kernels::RopePairing::kHalfSplit;
  args.num_heads = kHeads;
  args.rotary_dim = kRotary;
  args.cos_sin = cos_sin.data();
  args.slots = slots.data();
  args.kv = {pages->data(), kLayout.page_bytes(), kLayout};
  team.run(kernels::rope_kv_kernel(level), args);

  constexpr double kTolerance = 1e-3;  // a quarter turn in f32 is off by 1e-7 of a radian
  const auto* page = reinterpret_cast<const uint16_t*>(pages->data() + kLayout.page_bytes());
  for (int32_t token = 0; token < kTokens; ++token) {
    for (int32_t i = 0; i < kHeads * kLayout.head_dim; ++i) {
      const int32_t head = i / kLayout.head_dim * kLayout.head_dim;
      const int64_t index = int64_t{token} * kHeads * kLayout.head_dim + i;
      ENCORE_RETURN_IF_ERROR(
          expect_near("rope's q", index, static_cast<double>(q[static_cast<size_t>(index)]),
                      static_cast<double>(turned(token, head, i - head)), kTolerance));
    }
    for (int32_t i = 0; i < kLayout.head_dim; ++i) {
      const int64_t key_head = int64_t{kHeads} * kLayout.head_dim;
      const int64_t value_head = key_head + kLayout.head_dim;
      const float key = kernels::f16_to_f32(page[kLayout.key_offset(0, i, token)]);
      const float value = kernels::f16_to_f32(page[kLayout.value_offset(0, token, i)]);
      ENCORE_RETURN_IF_ERROR(expect_near("rope's key", i, static_cast<double>(key),
                                         static_cast<double>(turned(token, key_head, i)),
                                         kTolerance));
      ENCORE_RETURN_IF_ERROR(expect_near("rope's value", i, static_cast<double>(value),
                                         static_cast<double>(input_at(token, value_head + i)),
                                         0.0));
    }
  }
  return {};
}

}  // namespace encore::cpu
