#include "blas.h"

namespace encore::gpu {
namespace {

constexpr uintptr_t kAlignment = 16;

bool aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % kAlignment == 0; }

}  // namespace

std::string name_of(const ProductShape& shape) {
  return "product m=" + std::to_string(shape.m) + " n=" + std::to_string(shape.n) +
         " k=" + std::to_string(shape.k) + (shape.output == Element::kF32 ? " f32" : " bf16") +
         (shape.accumulate ? " accumulated" : "") + (shape.bias ? " with bias" : "");
}

Status check_product(const ProductShape& shape, const ProductOperands& operands) {
  if (shape.m < 1 || shape.n < 1 || shape.k < 1) {
    return invalid_argument("a product of m=" + std::to_string(shape.m) +
                            " n=" + std::to_string(shape.n) + " k=" + std::to_string(shape.k) +
                            "; each must be at least 1");
  }
  if (shape.output != Element::kBF16 && shape.output != Element::kF32) {
    return invalid_argument("a product's output must be bf16 or f32");
  }
  if (shape.bias && shape.output == Element::kF32) {
    return invalid_argument("a product with f32 output cannot have a bias; add it afterwards");
  }
  if (shape.bias != (operands.bias != nullptr)) {
    return invalid_argument("a product's bias must be given if, and only if, its shape has one");
  }
  if (operands.x == nullptr || operands.w == nullptr || operands.y == nullptr) {
    return invalid_argument("an operand of a product is null");
  }
  if (!aligned(operands.x) || !aligned(operands.w) || !aligned(operands.bias) ||
      !aligned(operands.y)) {
    return invalid_argument("a product's operands must be aligned to 16 bytes");
  }
  return {};
}

}  // namespace encore::gpu
