#include "vector_avx512.h"
// The vector's header comes first.
#include "norm_simd.h"

namespace encore::kernels {

void rms_norm_avx512(const RmsNormArgs& args, const Worker& worker) { rms_norm_simd(args, worker); }

}  // namespace encore::kernels
