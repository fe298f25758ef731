// Whether kernels of this folder can run.
#pragma once

#include "kernels/gpu/launch.h"

namespace encore::gpu {

// Success if the current device is of compute capability 9.0; then its multiprocessors are counted.
LaunchError check_sm90(int* num_sms);

}  // namespace encore::gpu
