// Elementwise kernels over a Vector. Include after its header.
#pragma once

#include <algorithm>

#include "activation_levels.h"
#include "row_range.h"
#include "vector_exp.h"

namespace encore::kernels {
namespace {

// y[i] = operation(a[i], b[i]) for begin <= i < end.
template <typename Operation>
void apply(const float* a, const float* b, float* y, int64_t begin, int64_t end,
           Operation operation) {
  using V = Vector;
  int64_t i = begin;
  for (; i + V::kLanes <= end; i += V::kLanes) {
    V::store(y + i, operation(V::load(a + i), V::load(b + i)));
  }
  if (i == end) return;
  const auto rest = static_cast<int32_t>(end - i);
  V::store_first(y + i, rest, operation(V::load_first(a + i, rest), V::load_first(b + i, rest)));
}

inline void silu_mul_simd(const SiluMulArgs& args, const Worker& worker) {
  using V = Vector;
  for_each_row_range(*args.num_rows, args.columns, worker, [&](int64_t row, int64_t a, int64_t b) {
    apply(args.gate + row * args.gate_stride, args.up + row * args.up_stride,
          args.y + row * args.y_stride, a, b, [](V::F gate, V::F up) {
            const V::F denominator = V::add(V::set(1.0F), exp(V::sub(V::zero(), gate)));
            return V::mul(V::div(gate, denominator), up);
          });
  });
}

inline void add_simd(const AddArgs& args, const Worker& worker) {
  for_each_row_range(*args.num_rows, args.columns, worker, [&](int64_t row, int64_t a, int64_t b) {
    apply(args.a + row * args.a_stride, args.b + row * args.b_stride, args.y + row * args.y_stride,
          a, b, Vector::add);
  });
}

}  // namespace
}  // namespace encore::kernels
