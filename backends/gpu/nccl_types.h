// The interface that NCCL and RCCL share: the same names with the same meaning.
#pragma once

#include "vendor.h"

#if defined(ENCORE_GPU_HIP)
#include "rccl_types.h"
#else
#include <nccl.h>
#endif
