// Quantised weights with AVX-VNNI, which some processors have without AVX-512.
#include "linear_panels_avx2.h"

namespace encore::kernels {
namespace {

template <int kBits>
class VnniDot {
 public:
  static constexpr int zero_shift(int shift) { return shift; }
  void start(int32_t value) { sum_ = _mm256_set1_epi32(value); }
  void add(int, __m256i w, __m256i x) { sum_ = _mm256_dpbusd_avx_epi32(sum_, w, x); }
  __m256i finish() const { return sum_; }

 private:
  __m256i sum_;
};

}  // namespace

void quantised_columns_avx2_vnni(const ColumnTask& task) { run_format<VnniDot>(task); }

}  // namespace encore::kernels
