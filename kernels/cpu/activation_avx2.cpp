#include "vector_avx2.h"
// The vector's header comes first.
#include "activation_simd.h"

namespace encore::kernels {

void silu_mul_avx2(const SiluMulArgs& args, const Worker& worker) { silu_mul_simd(args, worker); }
void add_avx2(const AddArgs& args, const Worker& worker) { add_simd(args, worker); }

}  // namespace encore::kernels
