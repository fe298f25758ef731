// The vectorised samplers, one file a level. Call only where the level is available.
#pragma once

#include "kernels/cpu/sample.h"

namespace encore::kernels {

void sample_avx2(const SampleArgs& args, const Worker& worker);
void sample_avx512(const SampleArgs& args, const Worker& worker);

}  // namespace encore::kernels
