#include "selftest.h"

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "host_memory.h"
#include "kernels/cpu/linear.h"

namespace encore::cpu {
namespace {

constexpr auto kType = kernels::WeightType::kQ8_0;
constexpr int64_t kInputs = 96;
constexpr int64_t kOutputs = 40;  // two whole panels and half of one
constexpr int32_t kRows = 5;

// Some small numbers, the same on every machine.
uint32_t next_random(uint32_t& state) {
  state = state * 1664525U + 1013904223U;
  return state >> 16;
}

Result<std::vector<float>> product(ThreadTeam& team, kernels::IsaLevel level,
                                   const std::vector<float>& x, const std::byte* packed) {
  const std::array types = {kType};
  ENCORE_ASSIGN_OR_RETURN(auto workspace,
                          MappedBlock::create(static_cast<int64_t>(kernels::linear_workspace_bytes(
                                                  types, kRows, kInputs)),
                                              "self-test"));
  team.reserve_scratch(kernels::linear_scratch_bytes(types, kInputs));
  std::vector<float> y(kRows * kOutputs);
  const int32_t rows = kRows;
  kernels::LinearArgs args;
  args.x = x.data();
  args.x_stride = kInputs;
  args.num_rows = &rows;
  args.max_rows = kRows;
  args.parts[0].weight = {kType, packed, kOutputs, kInputs};
  args.y = y.data();
  args.y_stride = kOutputs;
  args.workspace = workspace->data();
  args.level = level;
  team.run(kernels::linear, args);
  return y;
}

}  // namespace

Status selftest(ThreadTeam& team, kernels::IsaLevel level) {
  uint32_t state = 1;
  constexpr int64_t kBlockBytes = 34;
  constexpr uint16_t kScale = 0x2C00;  // 1/16 as f16
  std::vector<std::byte> weights(kOutputs * kInputs / 32 * kBlockBytes);
  for (size_t i = 0; i < weights.size(); ++i)
    weights[i] = static_cast<std::byte>(next_random(state));
  for (size_t i = 0; i < weights.size(); i += kBlockBytes) std::memcpy(&weights[i], &kScale, 2);
  std::vector<float> x(kRows * kInputs);
  for (float& value : x) value = static_cast<float>(next_random(state) % 2001) / 1000.0F - 1.0F;
  ENCORE_ASSIGN_OR_RETURN(
      auto packed,
      MappedBlock::create(static_cast<int64_t>(kernels::packed_bytes(kType, kOutputs, kInputs)),
                          "self-test"));
  kernels::pack_weight(kType, weights.data(), kOutputs, kInputs, 0, kOutputs, packed->data());
  ENCORE_ASSIGN_OR_RETURN(const auto found, product(team, level, x, packed->data()));
  ENCORE_ASSIGN_OR_RETURN(const auto expected,
                          product(team, kernels::IsaLevel::kGeneric, x, packed->data()));
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::memcmp(&found[i], &expected[i], sizeof(float)) != 0) {
      return internal_error("the self-test's element " + std::to_string(i) + " is " +
                            std::to_string(found[i]) + " at level " +
                            kernels::isa_level_name(level) + "; the specification gives " +
                            std::to_string(expected[i]));
    }
  }
  return {};
}

}  // namespace encore::cpu
