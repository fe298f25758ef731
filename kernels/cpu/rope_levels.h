// The vectorised rotations, one file a level. Call only where the level is available.
#pragma once

#include "kernels/cpu/rope.h"

namespace encore::kernels {

void rope_kv_avx2(const RopeKvArgs& args, const Worker& worker);
void rope_kv_avx512(const RopeKvArgs& args, const Worker& worker);

}  // namespace encore::kernels
