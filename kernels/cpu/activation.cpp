#include "kernels/cpu/activation.h"

#include <cmath>

#include "activation_levels.h"
#include "built_level.h"
#include "row_range.h"

namespace encore::kernels {
namespace {

void silu_mul_reference(const SiluMulArgs& args, const Worker& worker) {
  for_each_row_range(*args.num_rows, args.columns, worker, [&](int64_t row, int64_t a, int64_t b) {
    const float* gate = args.gate + row * args.gate_stride;
    const float* up = args.up + row * args.up_stride;
    float* y = args.y + row * args.y_stride;
    for (int64_t i = a; i < b; ++i) y[i] = gate[i] / (1.0F + std::exp(-gate[i])) * up[i];
  });
}

void add_reference(const AddArgs& args, const Worker& worker) {
  for_each_row_range(*args.num_rows, args.columns, worker, [&](int64_t row, int64_t a, int64_t b) {
    const float* left = args.a + row * args.a_stride;
    const float* right = args.b + row * args.b_stride;
    float* y = args.y + row * args.y_stride;
    for (int64_t i = a; i < b; ++i) y[i] = left[i] + right[i];
  });
}

}  // namespace

SiluMulKernel silu_mul_kernel(IsaLevel level) {
  if constexpr (kBuiltLevel >= IsaLevel::kAvx512) {
    if (level >= IsaLevel::kAvx512) return silu_mul_avx512;
  }
  if constexpr (kBuiltLevel >= IsaLevel::kAvx2) {
    if (level >= IsaLevel::kAvx2) return silu_mul_avx2;
  }
  return silu_mul_reference;
}

AddKernel add_kernel(IsaLevel level) {
  if constexpr (kBuiltLevel >= IsaLevel::kAvx512) {
    if (level >= IsaLevel::kAvx512) return add_avx512;
  }
  if constexpr (kBuiltLevel >= IsaLevel::kAvx2) {
    if (level >= IsaLevel::kAvx2) return add_avx2;
  }
  return add_reference;
}

}  // namespace encore::kernels
