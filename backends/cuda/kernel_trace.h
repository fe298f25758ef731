// Kernels, copies and fills with their times, from CUPTI's activity records.
#pragma once

#include <memory>
#include <vector>

#include "tracer.h"

namespace encore::cuda {

// The process's tracer; lives until the process ends. The library is opened by the first begin(),
// and stays attached to the driver from then on: later steps may be a little slower than before.
// Kernels are slowed too while traced, and the gaps between them widened, by about a microsecond.
// Graphs made before are traced kernel by kernel all the same.
gpu::Tracer& kernel_trace();

}  // namespace encore::cuda
