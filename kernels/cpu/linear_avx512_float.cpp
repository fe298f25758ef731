// Float weights with AVX-512: F32 and F16 by f32 fma, BF16 by widening both sides.
#include "linear_rows_avx512.h"

namespace encore::kernels {
namespace {

struct ElementF32 {
  static constexpr int64_t kStep = 16;
  using Vector = __m512;
  using Weight = float;
  using Activation = float;
  static Vector load_weight(const float* p) { return _mm512_loadu_ps(p); }
  static Vector load_weight(const float* p, uint32_t mask) {
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), p);
  }
  static Vector load_activation(const float* p) { return load_weight(p); }
  static Vector load_activation(const float* p, uint32_t mask) { return load_weight(p, mask); }
  static __m512 multiply_add(__m512 sum, Vector w, Vector x) { return _mm512_fmadd_ps(w, x, sum); }
};

struct ElementF16 : ElementF32 {
  using Weight = uint16_t;
  static Vector load_weight(const uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static Vector load_weight(const uint16_t* p, uint32_t mask) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(static_cast<__mmask16>(mask), p));
  }
};

struct ElementBF16 : ElementF32 {
  using Weight = uint16_t;
  using Activation = uint16_t;
  static Vector widen(__m256i values) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(values), 16));
  }
  static Vector load_weight(const uint16_t* p) {
    return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static Vector load_weight(const uint16_t* p, uint32_t mask) {
    return widen(_mm256_maskz_loadu_epi16(static_cast<__mmask16>(mask), p));
  }
  static Vector load_activation(const uint16_t* p) { return load_weight(p); }
  static Vector load_activation(const uint16_t* p, uint32_t mask) { return load_weight(p, mask); }
};

}  // namespace

void float_columns_avx512(const ColumnTask& task) {
  switch (task.type) {
    case WeightType::kF32:
      return run_float_columns<RowsAvx512<ElementF32>>(task);
    case WeightType::kF16:
      return run_float_columns<RowsAvx512<ElementF16>>(task);
    case WeightType::kBF16:
      return run_float_columns<RowsAvx512<ElementBF16>>(task);
    default:
      return;
  }
}

}  // namespace encore::kernels
