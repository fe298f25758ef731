// The attention kernels, one file a level. Call only where the level is available.
#pragma once

#include "kernels/cpu/attention.h"

namespace encore::kernels {

void attention_reference(const AttentionArgs& args, const Worker& worker);
void attention_avx2(const AttentionArgs& args, const Worker& worker);
void attention_avx512(const AttentionArgs& args, const Worker& worker);

}  // namespace encore::kernels
