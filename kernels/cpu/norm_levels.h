// The vectorised norms, one file a level. Call only where the level is available.
#pragma once

#include "kernels/cpu/norm.h"

namespace encore::kernels {

void rms_norm_avx2(const RmsNormArgs& args, const Worker& worker);
void rms_norm_avx512(const RmsNormArgs& args, const Worker& worker);

}  // namespace encore::kernels
