// Tile configuration shared by the AMX kernels. Private to each including file.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace encore::kernels {
namespace {

// What LDTILECFG reads.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void set(int tile, int tile_rows, int tile_row_bytes) {
    rows[tile] = static_cast<uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<uint16_t>(tile_row_bytes);
  }
};
static_assert(sizeof(TileConfig) == 64);

// g++ 12's tile intrinsics do not tell the compiler that they read memory.
inline void before_tile_load() { __asm__ volatile("" ::: "memory"); }

// Tiles are configured for this thread while one of these lives.
class TileSession {
 public:
  explicit TileSession(const TileConfig& config) { __asm__ volatile("ldtilecfg %0" ::"m"(config)); }
  ~TileSession() { __asm__ volatile("tilerelease"); }
  TileSession(const TileSession&) = delete;
  TileSession& operator=(const TileSession&) = delete;
};

}  // namespace
}  // namespace encore::kernels
