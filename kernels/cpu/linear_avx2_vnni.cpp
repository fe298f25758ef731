// Quantised weights with AVX-VNNI, which some processors have without AVX-512.
#include "linear_panels_avx2.h"

namespace encore::kernels {
namespace {

struct VnniDot {
  static __m256i add(__m256i sum, __m256i w, __m256i x) {
    return _mm256_dpwssd_avx_epi32(sum, w, x);
  }
};

}  // namespace

void quantised_columns_avx2_vnni(const ColumnTask& task) { run_format<VnniDot>(task); }

}  // namespace encore::kernels
