#include "kernels/cpu/norm.h"

#include <cmath>

#include "built_level.h"
#include "norm_levels.h"

namespace encore::kernels {
namespace {

void rms_norm_reference(const RmsNormArgs& args, const Worker& worker) {
  const int32_t columns = args.hidden_size;
  for (int32_t row = worker.index; row < *args.num_rows; row += worker.count) {
    const float* x = args.x + row * args.x_stride;
    float* y = args.y + row * args.y_stride;
    if (args.residual != nullptr) {
      float* residual = args.residual + row * args.residual_stride;
      for (int32_t i = 0; i < columns; ++i) residual[i] += x[i];
      x = residual;
    }
    double sum = 0.0;
    for (int32_t i = 0; i < columns; ++i) sum += static_cast<double>(x[i]) * x[i];
    const auto inverse = static_cast<float>(1.0 / std::sqrt(sum / columns + args.eps));
    for (int32_t i = 0; i < columns; ++i) y[i] = x[i] * inverse * args.weight[i];
  }
}

}  // namespace

RmsNormKernel rms_norm_kernel(IsaLevel level) {
  if constexpr (kBuiltLevel >= IsaLevel::kAvx512) {
    if (level >= IsaLevel::kAvx512) return rms_norm_avx512;
  }
  if constexpr (kBuiltLevel >= IsaLevel::kAvx2) {
    if (level >= IsaLevel::kAvx2) return rms_norm_avx2;
  }
  return rms_norm_reference;
}

}  // namespace encore::kernels
