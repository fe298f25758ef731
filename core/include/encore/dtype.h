// Element types of weights, activations and the KV cache, and the arithmetic of their sizes.
//
// A quantised type stores `block_elements` consecutive elements of a row in `block_bytes` bytes;
// a row is a whole number of such blocks. "Block" here is the file format's word and nothing else
// in Encore is called that: the KV cache has pages.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace encore {

// The numbers are part of the C ABI: never renumber.
enum class DType : int32_t {
  kInvalid = 0,
  kF32 = 1,
  kF16 = 2,
  kBF16 = 3,
  kI32 = 4,
  kI64 = 5,
  kU8 = 6,
  // Quantised, as laid out by GGUF.
  kQ8_0 = 32,
  kQ4_0 = 33,
  kQ4_1 = 34,
  kQ4_K = 35,
  kQ5_K = 36,
  kQ6_K = 37,
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;   // as in configuration files and messages
  int32_t block_elements;  // elements of one row that are stored together; 1 unless quantised
  int32_t block_bytes;     // bytes that hold them
};

inline constexpr std::array<DTypeInfo, 12> kDTypes = {{
    {DType::kF32, "f32", 1, 4},
    {DType::kF16, "f16", 1, 2},
    {DType::kBF16, "bf16", 1, 2},
    {DType::kI32, "i32", 1, 4},
    {DType::kI64, "i64", 1, 8},
    {DType::kU8, "u8", 1, 1},
    {DType::kQ8_0, "q8_0", 32, 34},
    {DType::kQ4_0, "q4_0", 32, 18},
    {DType::kQ4_1, "q4_1", 32, 20},
    {DType::kQ4_K, "q4_k", 256, 144},
    {DType::kQ5_K, "q5_k", 256, 176},
    {DType::kQ6_K, "q6_k", 256, 210},
}};

// The entry of `kDTypes`, or one named "invalid" with zero sizes.
constexpr DTypeInfo dtype_info(DType dtype) {
  for (const DTypeInfo& info : kDTypes) {
    if (info.dtype == dtype) return info;
  }
  return {DType::kInvalid, "invalid", 0, 0};
}

constexpr std::string_view dtype_name(DType dtype) { return dtype_info(dtype).name; }

// kInvalid if no dtype has that name.
constexpr DType dtype_from_name(std::string_view name) {
  for (const DTypeInfo& info : kDTypes) {
    if (info.name == name) return info.dtype;
  }
  return DType::kInvalid;
}

constexpr bool is_quantised(DType dtype) { return dtype_info(dtype).block_elements > 1; }

// Bytes of one row of `elements` elements; -1 if the dtype is invalid, `elements` is negative or
// not a whole number of its blocks, or the size does not fit int64.
constexpr int64_t row_bytes(DType dtype, int64_t elements) {
  const DTypeInfo info = dtype_info(dtype);
  if (info.block_elements == 0 || elements < 0 || elements % info.block_elements != 0) return -1;
  const int64_t blocks = elements / info.block_elements;
  if (blocks > INT64_MAX / info.block_bytes) return -1;
  return blocks * info.block_bytes;
}

}  // namespace encore
