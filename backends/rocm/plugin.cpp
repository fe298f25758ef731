// The plugin's one exported function.
#include "encore/sdk/backend_plugin.h"
#include "rocm_backend.h"

ENCORE_EXPORT_BACKEND(encore::rocm::RocmBackend)
