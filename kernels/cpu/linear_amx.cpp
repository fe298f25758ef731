#include "linear_internal.h"
namespace encore::kernels {
const LinearKernels& linear_kernels_amx() { return linear_kernels_avx512(); }
}  // namespace encore::kernels
