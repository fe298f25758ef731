// The plugin's one exported function.
#include "cuda_backend.h"
#include "encore/sdk/backend_plugin.h"

ENCORE_EXPORT_BACKEND(encore::cuda::CudaBackend)
