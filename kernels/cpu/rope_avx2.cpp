#include "vector_avx2.h"
// The vector's header comes first.
#include "rope_simd.h"

namespace encore::kernels {

void rope_kv_avx2(const RopeKvArgs& args, const Worker& worker) { rope_kv_simd(args, worker); }

}  // namespace encore::kernels
