#include "encore/sdk/backend_plugin.h"
#include "fake_backend.h"

ENCORE_EXPORT_BACKEND(encore::FakeBackend)
