#include "linear_internal.h"
namespace encore::kernels {
const LinearKernels& linear_kernels_avx2() { return linear_kernels_reference(); }
}  // namespace encore::kernels
