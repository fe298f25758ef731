// Where the device's memory went: one line for each use, beside what the device itself says.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "encore/backend.h"
#include "session_summary.h"

namespace encore {

// Bytes, of all devices that the model is spread over. On a device without memory of its own all of
// it is the host's, and nothing is measured.
struct MemoryLedger {
  int64_t weights = 0;
  int64_t mapped = 0;  // of the weights, read in place from mapped files
  int64_t kv = 0;
  int64_t arena = 0;
  int64_t static_buffers = 0;
  int64_t workspaces = 0;
  int64_t executables = 0;
  int64_t context = 0;    // driver and libraries
  int64_t other = 0;      // what the backend has allocated beyond the lines above; 0 if not said
  int64_t staging = 0;    // host memory beside a device's own; not part of the sum
  bool measured = false;  // whether `used` is known
  int64_t used = 0;       // what the devices say this process's run has taken

  int64_t sum() const {
    return weights + kv + arena + static_buffers + workspaces + executables + context + other;
  }
  // Of `used`, how far the sum is off, in percent; 0 if nothing was measured.
  double difference_percent() const;
};

// What the devices said before anything of the run was there.
struct MemoryBaseline {
  int32_t first_device = 0;
  int32_t num_devices = 1;
  bool has_own_memory = false;  // kCapabilityDeviceMemory
  int64_t used = 0;             // by others: without the backend's own context
};

// Of `num_devices` devices from `first_device` on, as far as there are so many.
// REQUIRES: the backend is initialised and nothing has been loaded.
Result<MemoryBaseline> measure_baseline(const Backend& backend, int32_t first_device,
                                        int32_t num_devices);

// What is there now. Errors: a device's, if it has its own memory and cannot say how much of it is
// used.
Result<MemoryLedger> make_ledger(const Backend& backend, const MemoryBaseline& baseline,
                                 const ModelInfo& model, const KvInfo& kv,
                                 const CaptureSummary& capture);

// A line for each use, the sum, and what the device says.
std::string ledger_table(const MemoryLedger& ledger);
nlohmann::ordered_json ledger_json(const MemoryLedger& ledger);

}  // namespace encore
