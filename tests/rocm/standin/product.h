// Matrix products: what the stand-ins for rocBLAS and hipBLASLt are made of.
#pragma once

#include <cstdint>
#include <memory>

#include "operation.h"

namespace encore::standin {

// d = a^T b + beta d + bias, column by column as in BLAS: a [k, m], b [k, n], both bf16; d [m, n].
struct ProductArgs {
  int32_t m = 0;
  int32_t n = 0;
  int32_t k = 0;
  const uint16_t* a = nullptr;
  int32_t a_stride = 0;  // elements from one column to the next
  const uint16_t* b = nullptr;
  int32_t b_stride = 0;
  float beta = 0.0F;  // 0: d is not read
  void* d = nullptr;
  int32_t d_stride = 0;
  bool d_is_f32 = false;           // else bf16
  const uint16_t* bias = nullptr;  // [m] bf16, added to every column; null: none
};

// Sums run over k in order, in f32.
std::shared_ptr<Operation> make_product(const ProductArgs& args);

}  // namespace encore::standin
