#include "sm90/decode_linear_pick.cuh"

namespace encore::gpu {

template DecodeKernel pick_decode_kernel<64>(const DecodeForm& form);

}  // namespace encore::gpu
