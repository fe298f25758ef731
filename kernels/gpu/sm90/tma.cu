#include <algorithm>

#include "sm90/tma.cuh"

namespace encore::gpu {
namespace {

using EncodeFunction = decltype(&cuTensorMapEncodeTiled);

// The driver's encoder, found once; null with `error` set where there is none.
EncodeFunction encoder(cudaError_t* error) {
  struct Found {
    void* function = nullptr;
    cudaError_t error = cudaSuccess;
  };
  static const Found found = [] {
    Found result;
    cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
    result.error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &result.function,
                                                    12000, cudaEnableDefault, &status);
    if (result.error == cudaSuccess && status != cudaDriverEntryPointSuccess) {
      result.error = cudaErrorSymbolNotFound;
    }
    return result;
  }();
  *error = found.error;
  return found.error == cudaSuccess ? reinterpret_cast<EncodeFunction>(found.function) : nullptr;
}

CUtensorMapDataType data_type(Element element) {
  switch (element) {
    case Element::kF16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case Element::kBF16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case Element::kF32:
      break;
  }
  return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
}

}  // namespace

LaunchError encode_tile_map(CUtensorMap* map, Element element, const void* data,
                            const TileMapShape& shape) {
  cudaError_t error = cudaSuccess;
  const EncodeFunction encode = encoder(&error);
  if (encode == nullptr) return error;
  cuuint64_t size[TileMapShape::kMaxRank];
  cuuint64_t stride[TileMapShape::kMaxRank];
  cuuint32_t box[TileMapShape::kMaxRank];
  cuuint32_t step[TileMapShape::kMaxRank];
  std::copy_n(shape.size, TileMapShape::kMaxRank, size);
  std::copy_n(shape.stride_bytes + 1, TileMapShape::kMaxRank - 1, stride);
  std::copy_n(shape.box, TileMapShape::kMaxRank, box);
  std::fill_n(step, TileMapShape::kMaxRank, 1);
  const CUresult result =
      encode(map, data_type(element), static_cast<cuuint32_t>(shape.rank), const_cast<void*>(data),
             size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

LaunchError encode_operand_map(CUtensorMap* map, const void* data, int rows, int k, int box_rows) {
  constexpr int kBoxK = 64;  // 128 bytes
  TileMapShape shape;
  shape.rank = 2;
  shape.size[0] = static_cast<uint64_t>(k);
  shape.size[1] = static_cast<uint64_t>(rows);
  shape.stride_bytes[1] = static_cast<uint64_t>(k) * sizeof(bf16);
  shape.box[0] = kBoxK;
  shape.box[1] = static_cast<uint32_t>(box_rows);
  return encode_tile_map(map, Element::kBF16, data, shape);
}

}  // namespace encore::gpu
