// Matrix products of our own: what is checked, and which kernel serves. The kernels are in
// linear_{stream,tiles}.cu.
#include "kernels/gpu/linear.h"
#include "linear_internal.h"
#include "vendor.h"

namespace encore::gpu {
namespace {

bool is_aligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; }

bool serves(const LinearShape& shape, const LinearOperands& operands) {
  return shape.m > 0 && shape.n > 0 && shape.k > 0 && shape.k % 8 == 0 &&
         ((shape.output == Element::kBF16 && shape.n % 8 == 0) ||
          (shape.output == Element::kF32 && operands.bias == nullptr)) &&
         operands.x != nullptr && operands.w != nullptr && operands.y != nullptr &&
         is_aligned(operands.x) && is_aligned(operands.w) && is_aligned(operands.bias) &&
         is_aligned(operands.y);
}

}  // namespace

int32_t linear_max_stream_rows() { return kLinearStreamRows; }

LaunchError linear(const LinearShape& shape, const LinearOperands& operands,
                   const DeviceTraits& device, const Launch& launch) {
  if (!serves(shape, operands)) return gpuErrorInvalidValue;
  LinearArgs args{};
  args.x = static_cast<const bf16*>(operands.x);
  args.w = static_cast<const bf16*>(operands.w);
  args.bias = static_cast<const bf16*>(operands.bias);
  args.y = operands.y;
  args.m = shape.m;
  args.n = shape.n;
  args.k = shape.k;
  args.f32_output = shape.output == Element::kF32;
  args.accumulate = shape.accumulate;
  return shape.m <= kLinearStreamRows ? launch_linear_stream(args, device, launch)
                                      : launch_linear_tiles(args, device, launch);
}

}  // namespace encore::gpu
