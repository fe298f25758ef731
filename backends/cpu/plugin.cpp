// The plugin's one exported function.
#include "cpu_backend.h"
#include "encore/sdk/backend_plugin.h"

ENCORE_EXPORT_BACKEND(encore::cpu::CpuBackend)
