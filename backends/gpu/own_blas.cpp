#include "own_blas.h"

#include <string>

#include "gpu_status.h"
#include "kernels/gpu/linear.h"

namespace encore::gpu {
namespace {

Status check(const ProductShape& shape, const ProductOperands& operands) {
  ENCORE_RETURN_IF_ERROR(check_product(shape, operands));
  if (shape.k % 8 == 0 && (shape.n % 8 == 0 || shape.output == Element::kF32)) return {};
  return unimplemented("a product of n=" + std::to_string(shape.n) +
                       " k=" + std::to_string(shape.k) +
                       "; own kernels take multiples of 8, and any n of f32 output");
}

}  // namespace

Status OwnBlas::tune(const ProductShape& shape, const ProductOperands& operands,
                     std::span<const void* const>, void*) {
  return check(shape, operands);
}

Status OwnBlas::multiply(const ProductShape& shape, const ProductOperands& operands, void* stream) {
  ENCORE_RETURN_IF_ERROR(check(shape, operands));
  const LaunchError error = linear({shape.m, shape.n, shape.k, shape.output, shape.accumulate},
                                   {operands.x, operands.w, operands.bias, operands.y}, device_,
                                   {stream, false, device_.lanes});
  return gpu_status(static_cast<gpuError_t>(error), "launching linear");
}

}  // namespace encore::gpu
