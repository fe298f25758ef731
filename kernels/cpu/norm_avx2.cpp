#include "vector_avx2.h"
// The vector's header comes first.
#include "norm_simd.h"

namespace encore::kernels {

void rms_norm_avx2(const RmsNormArgs& args, const Worker& worker) { rms_norm_simd(args, worker); }

}  // namespace encore::kernels
