// What librocblas.so.0 and libhipblaslt.so.0 ask of the stand-in's libamdhip64, which has the
// streams. `name` is the function whose failures a test may have planned.
#pragma once

#include <hip/hip_runtime_api.h>

namespace encore::standin {
struct ProductArgs;
}

extern "C" {

// Returns a hipError_t, or the failure that was planned.
int encore_standin_product(const char* name, const encore::standin::ProductArgs* args,
                           hipStream_t stream);
}
