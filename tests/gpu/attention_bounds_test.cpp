// What attention reserves when a step is recorded is enough for every step that it may serve.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "attention_internal.h"

namespace encore::gpu {
namespace {

constexpr std::array kPaths = {AttentionPath::kTensor, AttentionPath::kHopper, AttentionPath::kMfma,
                               AttentionPath::kWmma};
constexpr int32_t kProcessors = 132;

AttentionShape shape_of(int32_t num_heads, int32_t num_kv_heads, int32_t head_dim) {
  return {num_heads, {Element::kBF16, num_kv_heads, head_dim, 16}, Element::kBF16};
}

const std::array kShapes = {shape_of(32, 8, 128), shape_of(32, 32, 128), shape_of(16, 1, 64),
                            shape_of(14, 2, 64), shape_of(9, 3, 96)};

// Splits `total` over `count` requests, at least one each, in a random uneven way.
std::vector<int32_t> split(std::mt19937& engine, int32_t total, int32_t count) {
  std::vector<int32_t> parts(static_cast<size_t>(count), 1);
  for (int32_t left = total - count; left > 0;) {
    const auto piece = std::uniform_int_distribution<int32_t>(1, left)(engine);
    parts[std::uniform_int_distribution<size_t>(0, parts.size() - 1)(engine)] += piece;
    left -= piece;
  }
  return parts;
}

int32_t tiles_of(const std::vector<int32_t>& lengths, int32_t rows) {
  int32_t tiles = 0;
  for (const int32_t length : lengths) tiles += length > 1 ? (length + rows - 1) / rows : 0;
  return tiles;
}

// As attention_plan() cuts contexts into pieces.
int32_t pieces_of(const std::vector<int32_t>& lengths, const DecodeGrid& grid) {
  int32_t total = 0;
  for (const int32_t length : lengths) total += length;
  const int32_t chunk = std::max(grid.min_piece_keys, (total + grid.places - 1) / grid.places);
  int32_t pieces = 0;
  for (const int32_t length : lengths) pieces += std::max((2 * length + chunk) / (2 * chunk), 1);
  return pieces;
}

TEST(AttentionBounds, PageTakesKeysAndValuesOfEveryHead) {
  constexpr KvLayout kLlama{Element::kBF16, 8, 128, 16};
  static_assert(kLlama.head_elements() == 2048);
  static_assert(kLlama.half_elements() == 16384);
  static_assert(kLlama.page_bytes() == 65536);
  static_assert(KvLayout{Element::kF32, 8, 128, 64}.page_bytes() == 8 * 65536);
  static_assert(KvLayout{Element::kF16, 1, 64, 16}.page_bytes() == 4096);
  // Past 32 bits: pages of a large model, all layers of it in one cache.
  constexpr KvLayout kLarge{Element::kF32, 32768, 256, 64};
  static_assert(kLarge.page_bytes() == int64_t{1} << 32);
}

TEST(AttentionBounds, TilesAreEnoughForEveryWayToShareAStep) {
  std::mt19937 engine(1);
  const AttentionShape shape = shape_of(32, 8, 128);
  for (const AttentionPath path : kPaths) {
    const int32_t rows = prefill_tile_rows(shape, path);
    for (const int32_t tokens : {1, 2, 3, rows - 1, rows, rows + 1, 2 * rows + 1, 1000, 8192}) {
      for (const int32_t requests : {1, 2, 7, 64, 1024}) {
        const AttentionBounds bounds{tokens, requests, false, kProcessors};
        const int32_t bound = max_prefill_tiles(shape, bounds, path);
        for (int round = 0; round < 20; ++round) {
          const auto lengths = split(engine, tokens, std::min({tokens, requests, 1 + round * 60}));
          EXPECT_LE(tiles_of(lengths, rows), bound) << tokens << " tokens, " << requests;
        }
        EXPECT_EQ(max_prefill_tiles(shape, {tokens, requests, true, kProcessors}, path), 0);
      }
    }
    // The bound is reached: one full tile and one token more, of each of four requests.
    const AttentionBounds bounds{4 * (rows + 1), 4, false, kProcessors};
    EXPECT_EQ(max_prefill_tiles(shape, bounds, path), 8);
  }
}

TEST(AttentionBounds, MostTokensFollowRowsOfATileAndRequests) {
  const auto most = [](int32_t num_heads, int32_t num_requests, AttentionPath path) {
    return attention_max_tokens(shape_of(num_heads, 8, 128), num_requests, path);
  };
  EXPECT_EQ(most(64, 1, AttentionPath::kTensor), 81920);
  EXPECT_EQ(most(64, 64, AttentionPath::kTensor), 81479);
  EXPECT_EQ(most(64, 1024, AttentionPath::kTensor), 74759);
  EXPECT_EQ(most(64, 1, AttentionPath::kHopper), 163840);
  EXPECT_EQ(most(32, 1, AttentionPath::kMfma), 163840);
  EXPECT_EQ(most(8, 1, AttentionPath::kWmma), 655360);
  EXPECT_EQ(most(8, 1024, AttentionPath::kHopper), 1180799);
  EXPECT_EQ(most(64, 1024, AttentionPath::kPlain), 2147483647);
}

TEST(AttentionBounds, ThePlanTakesTheMostTokensAndNoneMore) {
  for (const AttentionShape& shape : kShapes) {
    for (const int32_t requests : {1, 64, 1024}) {
      // kTensor: 32 lanes, as the launch has.
      constexpr AttentionPath kPath = AttentionPath::kTensor;
      const int32_t most = attention_max_tokens(shape, requests, kPath);
      const AttentionBounds bounds{most, requests, false, kProcessors};
      const AttentionBounds more{most + 1, requests, false, kProcessors};
      EXPECT_EQ(max_prefill_tiles(shape, bounds, kPath), 10240);
      EXPECT_EQ(max_prefill_tiles(shape, more, kPath), 10241);
      std::vector<std::byte> workspace(attention_workspace_bytes(shape, bounds, kPath));
      const int32_t no_requests = 0;
      AttentionInputs inputs;
      inputs.num_requests = &no_requests;
      EXPECT_EQ(attention_plan(shape, bounds, kPath, inputs, workspace.data(), {}), 0);
      EXPECT_NE(attention_plan(shape, more, kPath, inputs, workspace.data(), {}), 0);
      // Steps of decodes alone have no tiles.
      const AttentionBounds decodes{most + 1, requests, true, kProcessors};
      EXPECT_EQ(attention_plan(shape, decodes, kPath, inputs, workspace.data(), {}), 0);
    }
  }
}

TEST(AttentionBounds, SlotsAreEnoughForEveryMixOfContexts) {
  std::mt19937 engine(2);
  for (const AttentionShape& shape : kShapes) {
    for (const AttentionPath path : kPaths) {
      for (const int32_t requests : {1, 2, 3, 8, 64, 256, 1024}) {
        const DecodeGrid grid = decode_grid(shape, {requests, requests, true, kProcessors}, path);
        EXPECT_GE(grid.cluster, 1);
        EXPECT_LE(grid.cluster, path == AttentionPath::kHopper ? 8 : 1);
        EXPECT_EQ(grid.cluster & (grid.cluster - 1), 0);
        EXPECT_GE(grid.head_groups * kDecodeHeads, shape.num_heads);
        for (int round = 0; round < 30; ++round) {
          const auto total = std::uniform_int_distribution<int32_t>(requests, 4000000)(engine);
          const auto lengths = split(engine, total, requests);
          EXPECT_LE(pieces_of(lengths, grid), grid.slots) << requests << " requests, " << total;
        }
        // All alike, where rounding up is worst.
        for (int32_t length = 1; length < 5000; length += 37) {
          const std::vector<int32_t> lengths(static_cast<size_t>(requests), length);
          EXPECT_LE(pieces_of(lengths, grid), grid.slots) << requests << " of " << length;
        }
      }
    }
  }
}

TEST(AttentionBounds, WorkspaceServesEverySmallerStep) {
  for (const AttentionShape& shape : kShapes) {
    for (const AttentionPath path : kPaths) {
      const AttentionBounds most{2048, 256, false, kProcessors};
      const size_t reserved = attention_workspace_bytes(shape, most, path);
      for (const int32_t tokens : {1, 16, 255, 1000, 2048}) {
        for (const int32_t requests : {1, 2, 5, 16, 64, 255, 256}) {
          for (const bool decode_only : {false, true}) {
            const AttentionBounds less{tokens, requests, decode_only, kProcessors};
            EXPECT_LE(attention_workspace(shape, less, path, nullptr).bytes, reserved)
                << tokens << " tokens, " << requests << " requests";
            EXPECT_LE(attention_workspace_bytes(shape, less, path), reserved);
          }
        }
      }
    }
  }
}

TEST(AttentionBounds, PartsOfTheWorkspaceLieApartAndAligned) {
  const AttentionShape shape = shape_of(32, 8, 128);
  const AttentionBounds bounds{512, 64, false, kProcessors};
  for (const AttentionPath path : kPaths) {
    const DecodeGrid grid = decode_grid(shape, bounds, path);
    const auto slots = static_cast<size_t>(grid.slots);
    const auto rows = slots * static_cast<size_t>(grid.head_groups) * kDecodeHeads;
    const auto cluster = static_cast<size_t>(grid.cluster);
    std::vector<std::byte> memory(attention_workspace_bytes(shape, bounds, path) + 256);
    auto* const base = reinterpret_cast<std::byte*>(
        (reinterpret_cast<uintptr_t>(memory.data()) + 255) / 256 * 256);
    const AttentionWorkspace made = attention_workspace(shape, bounds, path, base);
    struct Part {
      const void* begin;
      size_t bytes;
    };
    const std::array<Part, 7> parts = {{
        {made.pieces, slots * sizeof(DecodePiece)},
        {made.partial_sums, rows * 128 * 4},
        {made.partial_stats, rows * cluster * 2 * 4},
        {made.counters, 64 * static_cast<size_t>(grid.head_groups) * cluster * 4},
        {made.tiles,
         static_cast<size_t>(max_prefill_tiles(shape, bounds, path)) * sizeof(PrefillTile)},
        {made.num_tiles, 4},
        {made.prefill_counters, kPrefillCounters * 4},
    }};
    const std::byte* end = base;
    for (const Part& part : parts) {
      const auto* begin = static_cast<const std::byte*>(part.begin);
      EXPECT_GE(begin, end);
      EXPECT_EQ((begin - base) % 256, 0);
      end = begin + part.bytes;
    }
    EXPECT_LE(static_cast<size_t>(end - base), made.bytes);
  }
}

TEST(AttentionBounds, PathFollowsShapeAndDevice) {
  const AttentionShape llama = shape_of(32, 8, 128);
  const DeviceTraits mma{80, 32, MatrixUnit::kMma, 108};
  const DeviceTraits mfma{0, 64, MatrixUnit::kMfma, 104};
  const DeviceTraits wmma{0, 32, MatrixUnit::kWmma, 96};
  EXPECT_EQ(attention_path(llama, {75, 32, MatrixUnit::kNone, 40}), AttentionPath::kPlain);
  EXPECT_EQ(attention_path(llama, {0, 64, MatrixUnit::kNone, 60}), AttentionPath::kPlain);
  EXPECT_EQ(attention_path(llama, mma), AttentionPath::kTensor);
  EXPECT_EQ(attention_path(llama, {120, 32, MatrixUnit::kMma, 170}), AttentionPath::kTensor);
  EXPECT_EQ(attention_path(llama, mfma), AttentionPath::kMfma);
  EXPECT_EQ(attention_path(llama, wmma), AttentionPath::kWmma);
  AttentionShape f32_cache = llama;
  f32_cache.kv.element = Element::kF32;
  for (const DeviceTraits& device : {mma, mfma, wmma}) {
    EXPECT_EQ(attention_path(shape_of(32, 8, 80), device), AttentionPath::kPlain);
    EXPECT_EQ(attention_path(f32_cache, device), AttentionPath::kPlain);
  }
}

}  // namespace
}  // namespace encore::gpu
