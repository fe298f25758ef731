// BF16 weights with AVX512_BF16.
#include "linear_rows_avx512.h"

namespace encore::kernels {
namespace {

struct ElementPairBF16 {
  static constexpr int64_t kStep = 32;
  using Vector = __m512i;
  using Weight = uint16_t;
  using Activation = uint16_t;
  static Vector load_weight(const uint16_t* p) { return _mm512_loadu_si512(p); }
  static Vector load_weight(const uint16_t* p, uint32_t mask) {
    return _mm512_maskz_loadu_epi16(mask, p);
  }
  static Vector load_activation(const uint16_t* p) { return load_weight(p); }
  static Vector load_activation(const uint16_t* p, uint32_t mask) { return load_weight(p, mask); }
  static __m512 multiply_add(__m512 sum, Vector w, Vector x) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(w), reinterpret_cast<__m512bh>(x));
  }
};

}  // namespace

void bf16_columns_avx512(const ColumnTask& task) {
  run_float_columns<RowsAvx512<ElementPairBF16>>(task);
}

}  // namespace encore::kernels
