// The vectorised elementwise kernels, one file a level. Call only where the level is available.
#pragma once

#include "kernels/cpu/activation.h"

namespace encore::kernels {

void silu_mul_avx2(const SiluMulArgs& args, const Worker& worker);
void silu_mul_avx512(const SiluMulArgs& args, const Worker& worker);
void add_avx2(const AddArgs& args, const Worker& worker);
void add_avx512(const AddArgs& args, const Worker& worker);

}  // namespace encore::kernels
