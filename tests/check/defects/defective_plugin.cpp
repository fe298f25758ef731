// The one exported function of every defective plugin.
#include "defect.h"
#include "defective_backend.h"
#include "encore/sdk/backend_plugin.h"

extern "C" __attribute__((visibility("default"))) const encore_backend_table* encore_backend_entry(
    const encore_host_info* host, encore_error* error) {
  const encore_backend_table* sound =
      encore::sdk::entry<encore::defects::DefectiveBackend>(host, error);
  const encore::defects::AlterTable alter = encore::defects::active_table_defect();
  if (sound == nullptr || alter == nullptr) return sound;
  static encore_backend_table altered;
  altered = *sound;
  alter(&altered, host);
  return &altered;
}
