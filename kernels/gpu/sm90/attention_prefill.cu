// Causal prefill attention for sm_90: TMA gathers pages, wgmma multiplies, softmax in registers.
//
// A thread block works on 128 rows: the heads that share a KV head (as many as fit), side by side
// for each query row of a tile. One warp keeps the copies going; two warpgroups have 64 rows each
// and take turns, so that one's softmax runs under the other's products. Keys come in blocks of
// 128, last block first, which is the one that needs masking. Blocks fetch tiles, longest first,
// from a counter until none is left; the copies of the next tile start under the end of this one.
//
// Source: Dao 2023 (FlashAttention-2), Shah et al. 2024 (FlashAttention-3): the online softmax, the
// turns of two warpgroups, the product with the values one block behind the scores.
#include <algorithm>
#include <bit>

#include "attention_internal.h"
#include "attention_prefill_rows.cuh"
#include "launch.cuh"
#include "sm90/barrier.cuh"
#include "sm90/tma.cuh"
#include "sm90/wgmma.cuh"

namespace encore::gpu {
namespace {

constexpr int kRows = 128;  // of a thread block
constexpr int kKeys = 128;  // of a block of keys
constexpr int kHalfKeys = kKeys / 2;
constexpr int kGroupRows = 64;
constexpr int kGroupThreads = 128;
constexpr int kThreads = 3 * kGroupThreads;  // copies, and two warpgroups that compute
constexpr int kComputeThreads = 2 * kGroupThreads;
constexpr int kComputeWarps = kComputeThreads / 32;
// Of q: 128 rows of 64 elements, as TMA and wgmma swizzle them.
constexpr int kPanelRowBytes = 128;
constexpr int kPanelBytes = 128 * kPanelRowBytes;
// Of keys and values: 8 rows of a panel, the same 8 rows of the next panel, then the next 8 rows.
// So a page lies in one piece, which one copy fills.
constexpr int kEightRowsBytes = 8 * kPanelRowBytes;

// Named barriers: 1 + g lets warpgroup g issue its products.
constexpr int kTurn = 1;

struct Params {
  const PrefillTile* tiles;
  const int32_t* num_tiles;
  int32_t* counters;  // [0] tiles fetched beyond the first of each block, [1] blocks that are done
  const int32_t* page_ids;
  void* y;
  int64_t y_stride;
  float scale;  // with log2(e)
  int32_t num_kv_heads;
  int32_t group;        // heads of q for each KV head
  int32_t packed;       // of those, how many a thread block takes
  int32_t tile_rows;    // query rows of a full tile; tile_rows * packed <= kRows
  int32_t head_groups;  // num_kv_heads * ceil(group / packed): thread blocks' worth of work a tile
  int32_t page_shift;   // log2 of the page size
};

// What the copying warp tells the others of a tile. num_rows = 0: there are no more.
struct Work {
  int32_t q_row;
  int32_t num_rows;
  int32_t kv_end;
  int32_t head;       // the first; of q
  int32_t num_heads;  // 1 .. packed
};

// `stage` and `parity` of the n-th use of a ring.
template <int kStages>
struct Place {
  int stage;
  uint32_t parity;
  __device__ explicit Place(uint32_t n)
      : stage(static_cast<int>(n % kStages)), parity(n / kStages & 1U) {}
};

template <int kHeadDim>
struct Shared {
  static constexpr int kPanels = kHeadDim / 64;
  static constexpr int kStages = kHeadDim == 128 ? 3 : 4;
  static constexpr int kTileBytes = kPanels * kPanelBytes;

  unsigned char q[kTileBytes];
  unsigned char k[kStages][kTileBytes];
  unsigned char v[kStages][kTileBytes];
  uint64_t q_full, q_empty;
  uint64_t k_full[kStages], k_empty[kStages];
  uint64_t v_full[kStages], v_empty[kStages];
  uint64_t scrubbed;
  // Of even and odd tiles. Written when q may be, so that each is good until the next tile's scores
  // are done.
  Work work[2];
  // Of the block's first tile, what the plan says.
  int4 first_tile;
  int32_t num_items;
  int32_t first_pages[32];  // of its last block of keys
};

template <int kHeadDim>
__device__ void init_barriers(Shared<kHeadDim>& shared) {
  barrier_init(&shared.q_full, 1);
  barrier_init(&shared.q_empty, kComputeWarps + 1);
  barrier_init(&shared.scrubbed, 32);
  for (int stage = 0; stage < shared.kStages; ++stage) {
    barrier_init(&shared.k_full[stage], 1);
    barrier_init(&shared.v_full[stage], 1);
    barrier_init(&shared.k_empty[stage], kComputeWarps);
    barrier_init(&shared.v_empty[stage], kComputeWarps);
  }
  barrier_init_fence();
}

__device__ inline int num_key_blocks(int kv_end) { return (kv_end + kKeys - 1) / kKeys; }

// ---- the copying warp ----

// Pages of a block of keys that hold keys before kv_end; the last block may have fewer than others.
__device__ inline int live_pages(const Params& params, const PrefillTile& tile, int block) {
  const int keys = min(tile.kv_end - block * kKeys, kKeys);
  return (keys + (1 << params.page_shift) - 1) >> params.page_shift;
}

// Page `lane` of a block of keys.
__device__ inline int find_page(const Params& params, const PrefillTile& tile, int block,
                                int lane) {
  if (lane >= live_pages(params, tile, block)) return 0;
  return params.page_ids[tile.first_page + (block * kKeys >> params.page_shift) + lane];
}

// Before the kernel waits, for the plan is complete whenever it runs (attention_plan.cu). By the
// copying warp, into shared memory: what lives on in registers from here makes the compiler
// serialise the computing warpgroups' products.
template <int kHeadDim>
__device__ void look_up(Shared<kHeadDim>& shared, const Params& params) {
  const int item = static_cast<int>(blockIdx.x);
  const int lane = static_cast<int>(threadIdx.x);
  // There is room for the tile, whether it is live or not.
  const int4 words =
      __ldcg(reinterpret_cast<const int4*>(params.tiles) + item / params.head_groups);
  const int num_items = __ldcg(params.num_tiles) * params.head_groups;
  const PrefillTile tile{words.x, words.y, words.z, words.w};
  shared.first_pages[lane] =
      item < num_items ? find_page(params, tile, num_key_blocks(tile.kv_end) - 1, lane) : 0;
  if (lane > 0) return;
  shared.first_tile = words;
  shared.num_items = num_items;
}

// Lane i of a block of keys copies its page i.
template <int kHeadDim>
class Copies {
 public:
  using Memory = Shared<kHeadDim>;
  __device__ Copies(Memory& shared, const CUtensorMap* q_map, const CUtensorMap* kv_map,
                    const Params& params)
      : shared_(shared),
        q_map_(q_map),
        kv_map_(kv_map),
        params_(params),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ void run() {
    int item = static_cast<int>(blockIdx.x);
    const int4 first = shared_.first_tile;
    PrefillTile next_tile{first.x, first.y, first.z, first.w};
    int next_page_id = shared_.first_pages[lane_];
    const int num_items = shared_.num_items;
    const bool has_work = item < num_items;
    while (item < num_items) {
      const int fetched = fetch();  // lane 0 waits for it after this tile
      tile(next_tile, item, next_page_id);
      item = shuffle<32>(fetched, 0);
      if (item < num_items) {
        next_tile = read_tile(item);
        next_page_id = find_page(params_, next_tile, num_key_blocks(next_tile.kv_end) - 1, lane_);
      }
    }
    release_next_kernel();  // a product fills its rings with weights meanwhile
    if (lane_ == 0) {
      barrier_wait(&shared_.q_empty, (tiles_ & 1U) ^ 1U);
      shared_.work[tiles_ & 1U].num_rows = 0;
      barrier_arrive(&shared_.q_full);
      if (has_work) leave(min(num_items, static_cast<int>(gridDim.x)));
    }
  }

 private:
  // In lane 0.
  __device__ int fetch() const {
    return lane_ == 0 ? static_cast<int>(gridDim.x) + atomicAdd(&params_.counters[0], 1) : 0;
  }

  __device__ PrefillTile read_tile(int item) const {
    const int4 words = reinterpret_cast<const int4*>(params_.tiles)[item / params_.head_groups];
    return {words.x, words.y, words.z, words.w};
  }

  // The last of the blocks that had work leaves the counters as it found them.
  __device__ void leave(int num_blocks) const {
    if (atomicAdd(&params_.counters[1], 1) != num_blocks - 1) return;
    params_.counters[0] = 0;
    params_.counters[1] = 0;
  }

  // `page_id`: this lane's, of the tile's last block of keys.
  __device__ void tile(const PrefillTile& tile, int item, int page_id) {
    const int head_group = item % params_.head_groups;
    const int groups_per_kv = params_.head_groups / params_.num_kv_heads;
    const int kv_head = head_group / groups_per_kv;
    const int first = head_group % groups_per_kv * params_.packed;

    const int last = num_key_blocks(tile.kv_end) - 1;
    for (int block = last; block >= 0; --block, ++blocks_) {
      const int next_page_id = block > 0 ? find_page(params_, tile, block - 1, lane_) : 0;
      const int pages = live_pages(params_, tile, block);
      copy_block(shared_.k_empty, shared_.k_full, shared_.k, pages, kv_head, page_id);
      if (block == last) {
        copy_q(Work{tile.q_row, tile.num_rows, tile.kv_end, kv_head * params_.group + first,
                    min(params_.packed, params_.group - first)});
      }
      copy_block(shared_.v_empty, shared_.v_full, shared_.v, pages, params_.num_kv_heads + kv_head,
                 page_id);
      page_id = next_page_id;
    }
    ++tiles_;
  }

  __device__ void copy_q(const Work& work) const {
    if (lane_ == 0) {
      barrier_wait(&shared_.q_empty, (tiles_ & 1U) ^ 1U);
      shared_.work[tiles_ & 1U] = work;
      barrier_expect(&shared_.q_full, params_.tile_rows * params_.packed * kHeadDim * 2);
#pragma unroll
      for (int panel = 0; panel < Memory::kPanels; ++panel) {
        load_tile_3d(shared_address(shared_.q) + panel * kPanelBytes, q_map_, &shared_.q_full,
                     panel * 64, work.head, work.q_row);
      }
    }
    __syncwarp();
  }

  // `plane`: of a page, which [page_size, head_dim].
  __device__ void copy_block(uint64_t (&empty)[Memory::kStages], uint64_t (&full)[Memory::kStages],
                             unsigned char (&to)[Memory::kStages][Memory::kTileBytes], int pages,
                             int plane, int page_id) const {
    const Place<Memory::kStages> at(blocks_);
    if (lane_ == 0) {
      barrier_wait(&empty[at.stage], at.parity ^ 1U);
      barrier_expect(&full[at.stage], pages * kHeadDim * 2 << params_.page_shift);
    }
    __syncwarp();
    if (lane_ < pages) {
      const int offset = lane_ * kHeadDim * 2 << params_.page_shift;
      load_tile_5d(shared_address(to[at.stage]) + offset, kv_map_, &full[at.stage], 0, 0, 0,
                   plane << params_.page_shift >> 3, page_id);
    }
  }

  Memory& shared_;
  const CUtensorMap* q_map_;
  const CUtensorMap* kv_map_;
  const Params& params_;
  const int lane_;
  uint32_t tiles_ = 0;
  uint32_t blocks_ = 0;
};

// ---- the scrubbing warp ----

// Keys of a tile's last block that the tile may see, 1 .. kKeys.
__device__ inline int last_keys(const Work& work) {
  return work.kv_end - (num_key_blocks(work.kv_end) - 1) * kKeys;
}
// Whether the half of the block where they end has more keys than that.
__device__ inline bool needs_scrub(const Work& work) { return last_keys(work) % kHalfKeys != 0; }

// Zeroes the values of those other keys: a weight of 0 would not hide a NaN left in a page, or in
// shared memory where no page was copied.
template <int kHeadDim>
__device__ void scrub(Shared<kHeadDim>& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  uint32_t blocks = 0;
  for (uint32_t tiles = 0;; ++tiles) {
    barrier_wait(&shared.q_full, tiles & 1U);
    const Work work = shared.work[tiles & 1U];
    __syncwarp();
    if (lane == 0) barrier_arrive(&shared.q_empty);
    if (work.num_rows == 0) return;
    if (needs_scrub(work)) {
      const Place<Shared<kHeadDim>::kStages> at(blocks);
      const int keys = last_keys(work);
      const int end = keys + kHalfKeys - keys % kHalfKeys;
      barrier_wait(&shared.v_full[at.stage], at.parity);
      for (int key = keys + lane / 8; key < end; key += 4) {  // eight lanes a row of 128 bytes
        unsigned char* row = shared.v[at.stage] + key / 8 * (shared.kPanels * kEightRowsBytes) +
                             key % 8 * kPanelRowBytes + lane % 8 * 16;
        for (int panel = 0; panel < shared.kPanels; ++panel) {
          *reinterpret_cast<uint4*>(row + panel * kEightRowsBytes) = make_uint4(0, 0, 0, 0);
        }
      }
      fence_async_proxy();
      barrier_arrive(&shared.scrubbed);
    }
    blocks += num_key_blocks(work.kv_end);
  }
}

// ---- the computing warpgroups ----

template <typename T, int kHeadDim>
class Compute {
 public:
  using Memory = Shared<kHeadDim>;
  __device__ Compute(Memory& shared, const Params& params)
      : shared_(shared),
        params_(params),
        group_(static_cast<int>(threadIdx.x) / kGroupThreads - 1),
        lane_(static_cast<int>(threadIdx.x) % 32),
        row_(group_ * kGroupRows + static_cast<int>(threadIdx.x) % kGroupThreads / 32 * 16 +
             lane_ / 4) {}

  __device__ __forceinline__ void run() {
    if (group_ == 1) named_barrier_arrive(kTurn, kComputeThreads);  // warpgroup 0 begins
    for (uint32_t tiles = 0;; ++tiles) {
      barrier_wait(&shared_.q_full, tiles & 1U);
      const Work& work = shared_.work[tiles & 1U];
      if (work.num_rows == 0) return;
      tile(work);
    }
  }

 private:
  struct Registers {
    float scores[kKeys / 2];
    float sums[kHeadDim / 2];
    uint32_t weights[kKeys / 4];
    SoftmaxRows rows;
  };

  // Position of the query in a row of the thread block: the last key that it sees. Rows without a
  // query see what the last one does.
  __device__ int position(const Work& work, int row) const {
    return work.kv_end - work.num_rows + min(row / params_.packed, work.num_rows - 1);
  }

  __device__ __forceinline__ void tile(const Work& work) {
    const int last = num_key_blocks(work.kv_end) - 1;
    // No row of this warpgroup sees the second half of the last block.
    const bool half =
        position(work, group_ * kGroupRows + kGroupRows - 1) < last * kKeys + kHalfKeys;
    Registers r;
#pragma unroll
    for (float& sum : r.sums) sum = 0.0F;

    last_block(r, work, half);
    if (last > 0) {
      next_block<true>(r, work, last - 1, half);
#pragma unroll 1
      for (int block = last - 2; block >= 0; --block) next_block<false>(r, work, block, false);
      wait_for_values(false);
    } else {
      wait_for_values(needs_scrub(work));
      release(&shared_.q_empty);
    }
    mma_pin(r.sums);
    if (last == 0 && half) {
      multiply_values<kHalfKeys>(r, place().stage);
    } else {
      multiply_values<kKeys>(r, place().stage);
    }
    mma_wait<0>();
    mma_pin(r.sums);
    release(&shared_.v_empty[place().stage]);
    ++blocks_;

    finish_rows(r.sums, r.rows);
#pragma unroll
    for (int i = 0; i < 2; ++i) store_row(row_address(work, row_ + 8 * i), r.sums, i, lane_ % 4);
  }

  // Weights of the tile's last block, which is the first to be computed.
  __device__ __forceinline__ void last_block(Registers& r, const Work& work, bool half) {
    barrier_wait(&shared_.k_full[place().stage], place().parity);
    begin_turn();
    mma_pin(r.scores);
    // For head_dim 64 the compiler finds no registers for both widths: it would serialise products.
    if (kHeadDim == 128 && half) {
      multiply_keys<kHalfKeys>(r, place().stage);
    } else {
      multiply_keys<kKeys>(r, place().stage);
    }
    end_turn();
    mma_wait<0>();
    mma_pin(r.scores);
    release(&shared_.k_empty[place().stage]);
    float correction[2];
    mask(r, work, num_key_blocks(work.kv_end) - 1);
    softmax_step(r.scores, r.rows, params_.scale, correction);
    pack_weights<T>(r.scores, r.weights);
  }

  // Weights of `block`, while the values of the block computed before it are multiplied.
  template <bool kAfterLast>
  __device__ __forceinline__ void next_block(Registers& r, const Work& work, int block, bool half) {
    const Place<Memory::kStages> now(blocks_ + 1);
    barrier_wait(&shared_.k_full[now.stage], now.parity);
    begin_turn();
    mma_pin(r.scores);
    mma_pin(r.sums);
    multiply_keys<kKeys>(r, now.stage);
    wait_for_values(kAfterLast && needs_scrub(work));
    if (kAfterLast && half) {
      multiply_values<kHalfKeys>(r, place().stage);
    } else {
      multiply_values<kKeys>(r, place().stage);
    }
    end_turn();
    mma_wait<1>();
    mma_pin(r.scores);
    release(&shared_.k_empty[now.stage]);
    if (block == 0) release(&shared_.q_empty);
    float correction[2];
    if (kAfterLast) mask(r, work, block);
    softmax_step(r.scores, r.rows, params_.scale, correction);
    if (!kAfterLast) finish_before_wait(r.rows);
    mma_wait<0>();
    mma_pin(r.sums);
    release(&shared_.v_empty[place().stage]);
    ++blocks_;
    scale_rows(r.sums, correction);
    pack_weights<T>(r.scores, r.weights);
  }

  __device__ Place<Memory::kStages> place() const { return Place<Memory::kStages>(blocks_); }

  __device__ void begin_turn() const { named_barrier_sync(kTurn + group_, kComputeThreads); }
  __device__ void end_turn() const { named_barrier_arrive(kTurn + 1 - group_, kComputeThreads); }

  // After mma_wait(): this warp's reads are done.
  __device__ void release(uint64_t* empty) const {
    if (lane_ == 0) barrier_arrive(empty);
  }

  // Of block blocks_. The scrubbing warp is at most one phase ahead: it needs q_empty, which this
  // warp releases after this wait.
  __device__ void wait_for_values(bool scrubbed) {
    barrier_wait(&shared_.v_full[place().stage], place().parity);
    if (scrubbed) barrier_wait(&shared_.scrubbed, scrubs_++ & 1U);
  }

  // Issues the scores of the first kCount keys of a block.
  template <int kCount>
  __device__ __forceinline__ void multiply_keys(Registers& r, int stage) const {
    auto& scores = reinterpret_cast<float(&)[kCount / 2]>(r.scores);
    const uint32_t q = shared_address(shared_.q) + group_ * kGroupRows * kPanelRowBytes;
    const uint32_t k = shared_address(shared_.k[stage]);
    mma_fence();
#pragma unroll
    for (int j = 0; j < kHeadDim / 16; ++j) {
      const uint32_t of_q = j / 4 * kPanelBytes + j % 4 * 32;
      const uint32_t of_k = j / 4 * kEightRowsBytes + j % 4 * 32;
      mma_shared<T, kCount>(scores, mma_descriptor(q + of_q),
                            mma_descriptor(k + of_k, Memory::kPanels * kEightRowsBytes), j != 0);
    }
    mma_commit();
  }

  // Issues the weighted sum of the values of the first kCount keys of a block.
  template <int kCount>
  __device__ __forceinline__ void multiply_values(Registers& r, int stage) const {
    const uint32_t v = shared_address(shared_.v[stage]);
    mma_fence();
#pragma unroll
    for (int j = 0; j < kCount / 16; ++j) {
      mma_registers<T, kHeadDim>(
          r.sums, r.weights + 4 * j,
          mma_descriptor_transposed(v + j * 2 * Memory::kPanels * kEightRowsBytes, kEightRowsBytes,
                                    Memory::kPanels * kEightRowsBytes));
    }
    mma_commit();
  }

  // Hides keys that a row does not see. Only the last two blocks of a tile have any.
  __device__ __forceinline__ void mask(Registers& r, const Work& work, int block) const {
    const int first_key = block * kKeys;
    if (first_key + kKeys - 1 <= position(work, group_ * kGroupRows)) return;
    const int first = first_key + lane_ % 4 * 2;
    mask_scores(r.scores, {position(work, row_) - first, position(work, row_ + 8) - first});
  }

  // A branch on what depends on all weights, never taken: else the compiler moves the softmax past
  // the wait that follows, out from under the products.
  __device__ __forceinline__ void finish_before_wait(const SoftmaxRows& rows) const {
    if (rows.sum[0] + rows.sum[1] < 0.0F) asm volatile("trap;");
  }

  __device__ T* row_address(const Work& work, int row) const {
    const int query = row / params_.packed;
    const int head = row % params_.packed;
    if (query >= work.num_rows || head >= work.num_heads) return nullptr;
    return static_cast<T*>(params_.y) + (work.q_row + query) * params_.y_stride +
           int64_t{work.head + head} * kHeadDim;
  }

  Memory& shared_;
  const Params& params_;
  const int group_;
  const int lane_;
  const int row_;        // this lane's first, of the thread block's 128
  uint32_t blocks_ = 0;  // blocks of keys finished
  uint32_t scrubs_ = 0;
};

template <typename T, int kHeadDim>
__global__ void __launch_bounds__(kThreads, 1)
    attention_prefill_hopper(const __grid_constant__ CUtensorMap q_map,
                             const __grid_constant__ CUtensorMap kv_map,
                             const __grid_constant__ Params params) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  ENCORE_GPU_DYNAMIC_SHARED(Shared<kHeadDim>, memory);
  Shared<kHeadDim>& shared = *memory;
  if (threadIdx.x == 0) {
    prefetch_map(&q_map);
    prefetch_map(&kv_map);
    init_barriers(shared);
  }
  if (threadIdx.x < 32) look_up(shared, params);
  __syncthreads();
  wait_for_previous_kernel();
  if (threadIdx.x < kGroupThreads) {
    release_registers<40>();
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (warp == 0) Copies<kHeadDim>(shared, &q_map, &kv_map, params).run();
    if (warp == 1) scrub(shared);
  } else {
    take_registers<232>();
    Compute<T, kHeadDim>(shared, params).run();
  }
#endif
}

// q as [head_dim, num_heads, max_tokens]; a box is one panel of a tile's rows.
LaunchError map_q(CUtensorMap* map, const AttentionShape& shape, const AttentionBounds& bounds,
                  const AttentionArgs& args, const Params& params) {
  const auto head_dim = static_cast<uint64_t>(shape.kv.head_dim);
  TileMapShape tile;
  tile.rank = 3;
  tile.size[0] = head_dim;
  tile.size[1] = static_cast<uint64_t>(shape.num_heads);
  tile.size[2] = static_cast<uint64_t>(bounds.max_tokens);
  tile.stride_bytes[1] = head_dim * 2;
  tile.stride_bytes[2] = static_cast<uint64_t>(args.q_stride) * 2;
  tile.box[0] = 64;
  tile.box[1] = static_cast<uint32_t>(params.packed);
  tile.box[2] = static_cast<uint32_t>(params.tile_rows);
  return encode_tile_map(map, shape.element, args.q, tile);
}

// The cache as [64, 8, panels, planes * page_size / 8, num_pages], planes being the heads' keys,
// then their values; a box is one plane of a page, eight rows of all its panels after the other.
LaunchError map_kv(CUtensorMap* map, const KvPages& kv) {
  const auto head_dim = static_cast<uint64_t>(kv.layout.head_dim);
  const auto page_size = static_cast<uint64_t>(kv.layout.page_size);
  TileMapShape tile;
  tile.rank = 5;
  tile.size[0] = 64;
  tile.size[1] = 8;
  tile.size[2] = head_dim / 64;
  tile.size[3] = static_cast<uint64_t>(kv.layout.num_kv_heads) * 2 * (page_size / 8);
  tile.size[4] = static_cast<uint64_t>(kv.num_pages);
  tile.stride_bytes[1] = head_dim * 2;
  tile.stride_bytes[2] = kPanelRowBytes;
  tile.stride_bytes[3] = head_dim * 8 * 2;
  tile.stride_bytes[4] = static_cast<uint64_t>(kv.layout.page_bytes());
  tile.box[0] = 64;
  tile.box[1] = 8;
  tile.box[2] = static_cast<uint32_t>(head_dim / 64);
  tile.box[3] = static_cast<uint32_t>(page_size / 8);
  tile.box[4] = 1;
  return encode_tile_map(map, kv.layout.element, kv.data, tile);
}

template <typename T, int kHeadDim>
LaunchError launch_kernel_for(const CUtensorMap& q_map, const CUtensorMap& kv_map,
                              const Params& params, int num_blocks, const Launch& launch) {
  const auto kernel = attention_prefill_hopper<T, kHeadDim>;
  constexpr int kBytes = sizeof(Shared<kHeadDim>);
  const LaunchError error =
      gpuFuncSetAttribute(kernel, gpuFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != gpuSuccess) return error;
  return launch_kernel(kernel, num_blocks, kThreads, kBytes, launch, q_map, kv_map, params);
}

}  // namespace

LaunchError launch_prefill_hopper(const AttentionShape& shape, const AttentionBounds& bounds,
                                  const AttentionArgs& args, const AttentionWorkspace& workspace,
                                  const Launch& launch) {
  Params params{};
  params.tiles = workspace.tiles;
  params.num_tiles = workspace.num_tiles;
  params.counters = workspace.prefill_counters;
  params.page_ids = args.inputs.page_ids;
  params.y = args.y;
  params.y_stride = args.y_stride;
  params.scale = args.scale * kLog2E;
  params.num_kv_heads = shape.kv.num_kv_heads;
  params.group = shape.num_heads / shape.kv.num_kv_heads;
  params.tile_rows = prefill_tile_rows(shape, AttentionPath::kHopper);
  params.packed = std::min(params.group, kRows / params.tile_rows);
  params.head_groups = params.num_kv_heads * ((params.group + params.packed - 1) / params.packed);
  params.page_shift = std::countr_zero(static_cast<uint32_t>(shape.kv.page_size));

  CUtensorMap q_map;
  CUtensorMap kv_map;
  if (const LaunchError error = map_q(&q_map, shape, bounds, args, params)) return error;
  if (const LaunchError error = map_kv(&kv_map, args.kv)) return error;
  const int64_t items =
      int64_t{max_prefill_tiles(shape, bounds, AttentionPath::kHopper)} * params.head_groups;
  const auto num_blocks = static_cast<int>(std::min<int64_t>(items, bounds.num_processors));
  if (num_blocks == 0) return gpuSuccess;
  const bool half = shape.element == Element::kF16;
  const auto run = shape.kv.head_dim == 128
                       ? (half ? launch_kernel_for<f16, 128> : launch_kernel_for<bf16, 128>)
                       : (half ? launch_kernel_for<f16, 64> : launch_kernel_for<bf16, 64>);
  return run(q_map, kv_map, params, num_blocks, launch);
}

}  // namespace encore::gpu
