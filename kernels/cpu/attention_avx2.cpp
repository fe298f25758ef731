#include "vector_avx2.h"
// The vector's header comes first.
#include "attention_simd.h"

namespace encore::kernels {

void attention_avx2(const AttentionArgs& args, const Worker& worker) {
  run_attention<SimdEngine>(args, worker);
}

}  // namespace encore::kernels
