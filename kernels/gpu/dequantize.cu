#include "dequantize_formats.cuh"
#include "kernels/gpu/dequantize.h"
#include "launch.cuh"
#include "pack.cuh"
#include "vendor.h"

namespace encore::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kTileElements = 8192;  // of a block: a whole number of groups of every format

// Groups of the odd sizes of the formats are read through shared memory, in 16-byte pieces.
template <typename Format>
__global__ void __launch_bounds__(kThreads)
    dequantize_kernel(const uint8_t* source, int64_t elements, bf16* destination) {
  constexpr int kTileBytes = kTileElements / Format::kElements * Format::kBytes;
  static_assert(kTileBytes % 16 == 0);
  __shared__ uint4 tile[kTileBytes / 16];
  auto* bytes = reinterpret_cast<uint8_t*>(tile);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTileElements;
  const auto count = static_cast<int>(min(elements - first, static_cast<int64_t>(kTileElements)));
  const int count_bytes = count / Format::kElements * Format::kBytes;
  source += static_cast<int64_t>(blockIdx.x) * kTileBytes;
  const int thread = static_cast<int>(threadIdx.x);

  wait_for_previous_kernel();
  for (int i = thread; i < count_bytes / 16; i += kThreads) {
    tile[i] = reinterpret_cast<const uint4*>(source)[i];
  }
  const int rest = count_bytes / 16 * 16 + thread;
  if (rest < count_bytes) bytes[rest] = source[rest];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kTileElements / 8 / kThreads; ++i) {
    const int e = (thread + i * kThreads) * 8;
    if (e >= count) return;
    float values[8];
    Format::decode(bytes + e / Format::kElements * Format::kBytes, e % Format::kElements, values);
    store8(destination + first + e, pack_of(values));
  }
}

// f32 and f16: eight elements a thread.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    convert_kernel(const T* source, int64_t elements, bf16* destination) {
  struct alignas(16) Piece {
    T values[16 / sizeof(T)];
  };
  constexpr int kPieces = 8 / (16 / sizeof(T));
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * 8;
  wait_for_previous_kernel();
  if (first + 8 <= elements) {
    float values[8];
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const Piece piece = reinterpret_cast<const Piece*>(source + first)[i];
#pragma unroll
      for (int j = 0; j < 8 / kPieces; ++j)
        values[i * (8 / kPieces) + j] = to_float(piece.values[j]);
    }
    store8(destination + first, pack_of(values));
  } else {
    for (int64_t i = first; i < elements; ++i) {
      destination[i] = to_bf16(to_float(source[i]));
    }
  }
}

template <typename Format>
LaunchError launch_groups(const DequantizeArgs& args, const Launch& launch) {
  static_assert(kTileElements % Format::kElements == 0);
  if (args.elements % Format::kElements != 0) return gpuErrorInvalidValue;
  const int64_t tiles = (args.elements + kTileElements - 1) / kTileElements;
  return launch_kernel(dequantize_kernel<Format>, static_cast<unsigned>(tiles), kThreads, 0, launch,
                       static_cast<const uint8_t*>(args.source), args.elements,
                       static_cast<bf16*>(args.destination));
}

template <typename T>
LaunchError launch_convert(const DequantizeArgs& args, const Launch& launch) {
  const int64_t blocks = (args.elements + 8 * kThreads - 1) / (8 * kThreads);
  return launch_kernel(convert_kernel<T>, static_cast<unsigned>(blocks), kThreads, 0, launch,
                       static_cast<const T*>(args.source), args.elements,
                       static_cast<bf16*>(args.destination));
}

}  // namespace

LaunchError dequantize(const DequantizeArgs& args, const Launch& launch) {
  if (args.elements < 0) return gpuErrorInvalidValue;
  if (args.elements == 0) return gpuSuccess;
  switch (args.format) {
    case WeightFormat::kF32:
      return launch_convert<float>(args, launch);
    case WeightFormat::kF16:
      return launch_convert<f16>(args, launch);
    case WeightFormat::kBF16:
      return gpuMemcpyAsync(args.destination, args.source,
                            static_cast<size_t>(args.elements) * sizeof(bf16),
                            gpuMemcpyDeviceToDevice, static_cast<gpuStream_t>(launch.stream));
    case WeightFormat::kQ8_0:
      return launch_groups<Q8_0>(args, launch);
    case WeightFormat::kQ4_0:
      return launch_groups<Q4_0>(args, launch);
    case WeightFormat::kQ4_1:
      return launch_groups<Q4_1>(args, launch);
    case WeightFormat::kQ4_K:
      return launch_groups<Q4_K>(args, launch);
    case WeightFormat::kQ5_K:
      return launch_groups<Q5_K>(args, launch);
    case WeightFormat::kQ6_K:
      return launch_groups<Q6_K>(args, launch);
  }
  return gpuErrorInvalidValue;
}

}  // namespace encore::gpu
