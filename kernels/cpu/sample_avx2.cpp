#include "vector_avx2.h"
// The vector's header comes first.
#include "sample_simd.h"

namespace encore::kernels {

void sample_avx2(const SampleArgs& args, const Worker& worker) {
  sample_rows<SimdEngine>(args, worker);
}

}  // namespace encore::kernels
