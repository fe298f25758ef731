#include "kernels/gpu/rows.h"
#include "launch.cuh"
#include "pack.cuh"
#include "vendor.h"

namespace encore::gpu {
namespace {

constexpr int32_t kThreads = 256;

// Blocks (row, piece of the row): a thread owns one pack of eight columns.
struct PackOfRow {
  int64_t row;
  int32_t column;  // the pack's first
};
__device__ inline PackOfRow my_pack() {
  return {static_cast<int64_t>(blockIdx.x),
          static_cast<int32_t>(blockIdx.y * blockDim.x + threadIdx.x) * 8};
}

template <typename Args>
LaunchError launch_rows(void (*kernel)(Args), const Args& args, const LiveRows& rows,
                        int32_t columns, const Launch& launch) {
  if (columns <= 0 || columns % 8 != 0) return gpuErrorInvalidValue;
  if (rows.maximum <= 0) return gpuSuccess;
  const int32_t packs = columns / 8;
  const int32_t threads = packs < kThreads ? whole_warps(packs, launch) : kThreads;
  const dim3 grid(rows.maximum, (packs + threads - 1) / threads);
  return launch_kernel(kernel, grid, threads, 0, launch, args);
}

__device__ inline Pack8 zero_pack() {
  const float zeros[8] = {};
  return pack_of(zeros);
}

__global__ void embed_kernel(EmbedArgs args) {
  const PackOfRow at = my_pack();
  wait_for_previous_kernel();
  if (at.row >= *args.tokens.live) return;
  int32_t id = args.token_ids[at.row];
  if (id < 0) id = args.previous_tokens[-1 - id];
  release_next_kernel();
  if (at.column == 0) args.input_tokens[at.row] = id;
  if (at.column >= args.hidden_size) return;
  const bool known = id >= 0 && id < args.vocab_size;
  const auto* table = static_cast<const bf16*>(args.table);
  const Pack8 pack =
      known ? load8(table + static_cast<int64_t>(id) * args.hidden_size + at.column) : zero_pack();
  store8(static_cast<bf16*>(args.y) + at.row * args.hidden_size + at.column, pack);
}

__global__ void gather_rows_kernel(GatherRowsArgs args) {
  const PackOfRow at = my_pack();
  wait_for_previous_kernel();
  if (at.column >= args.columns) return;
  const auto* x = static_cast<const bf16*>(args.x);
  Pack8 pack = zero_pack();
  if (at.row < *args.rows.live) {
    pack = load8(x + static_cast<int64_t>(args.index[at.row]) * args.columns + at.column);
  }
  release_next_kernel();
  store8(static_cast<bf16*>(args.y) + at.row * args.columns + at.column, pack);
}

__device__ inline float silu(float x) { return __fdividef(x, 1.0F + __expf(-x)); }

__global__ void silu_mul_kernel(SiluMulArgs args) {
  const PackOfRow at = my_pack();
  wait_for_previous_kernel();
  if (at.row >= *args.rows.live || at.column >= args.columns) return;
  const auto* x = static_cast<const bf16*>(args.x) + at.row * 2 * args.columns + at.column;
  float gate[8];
  float up[8];
  unpack(load8(x), gate);
  unpack(load8(x + args.columns), up);
  release_next_kernel();
#pragma unroll
  for (int i = 0; i < 8; ++i) gate[i] = silu(gate[i]) * up[i];
  store8(static_cast<bf16*>(args.y) + at.row * args.columns + at.column, pack_of(gate));
}

__global__ void add_bias_kernel(AddBiasArgs args) {
  const PackOfRow at = my_pack();
  float bias[8] = {};  // constant data: need not wait
  if (at.column < args.columns)
    unpack(load8(static_cast<const bf16*>(args.bias) + at.column), bias);
  wait_for_previous_kernel();
  if (at.row >= *args.rows.live || at.column >= args.columns) return;
  bf16* x = static_cast<bf16*>(args.x) + at.row * args.columns + at.column;
  float values[8];
  unpack(load8(x), values);
  release_next_kernel();
#pragma unroll
  for (int i = 0; i < 8; ++i) values[i] += bias[i];
  store8(x, pack_of(values));
}

}  // namespace

LaunchError embed(const EmbedArgs& args, const Launch& launch) {
  return launch_rows(embed_kernel, args, args.tokens, args.hidden_size, launch);
}

LaunchError gather_rows(const GatherRowsArgs& args, const Launch& launch) {
  return launch_rows(gather_rows_kernel, args, args.rows, args.columns, launch);
}

LaunchError silu_mul(const SiluMulArgs& args, const Launch& launch) {
  return launch_rows(silu_mul_kernel, args, args.rows, args.columns, launch);
}

LaunchError add_bias(const AddBiasArgs& args, const Launch& launch) {
  return launch_rows(add_bias_kernel, args, args.rows, args.columns, launch);
}

}  // namespace encore::gpu
