#include "vector_avx512.h"
// The vector's header comes first.
#include "activation_simd.h"

namespace encore::kernels {

void silu_mul_avx512(const SiluMulArgs& args, const Worker& worker) { silu_mul_simd(args, worker); }
void add_avx512(const AddArgs& args, const Worker& worker) { add_simd(args, worker); }

}  // namespace encore::kernels
