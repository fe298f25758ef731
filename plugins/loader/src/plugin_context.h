// What the proxies of one plugin share: its table as this host reads it, and its extensions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "encore/backend.h"
#include "encore/backend_abi.h"
#include "encore/loader/load_failure.h"
#include "encore/status.h"

namespace encore {

// Immutable; any thread. Its pointers stay valid for the life of the process.
struct PluginContext {
  encore_backend_table table{};  // functions that the plugin lacks are null
  encore_layer_observers_extension observers{};
  encore_device_limits_extension limits{};
  encore_guards_extension guards{};
  encore_memory_plan_extension plan{};
  encore_lazy_capture_extension lazy{};
  encore_step_trace_extension trace{};
  encore_fault_injection_extension faults{};
  std::vector<std::string> extensions;  // names of those that the plugin offers
  BackendIdentity identity;
  std::vector<OptionSchema> schema;
};

// Checks what a plugin's entry function returned, and reads everything static.
// Errors: kFailedPrecondition naming what was expected and found, or what the plugin reported when
// asked for its option schema; `*code`, unless null, says which.
Result<std::shared_ptr<const PluginContext>> negotiate(const encore_backend_table* raw,
                                                       LoadCode* code);

}  // namespace encore
