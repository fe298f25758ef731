// Copies, fills and deferred frees, checked when they are enqueued and again when they run.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <memory>

#include "operation.h"

namespace encore::standin {

// Errors, each noted as misuse: hipErrorInvalidValue for a range that leaves its allocation or has
// been freed; hipErrorInvalidMemcpyDirection if `kind` says something else than the addresses.
hipError_t make_copy(void* to, const void* from, size_t bytes, hipMemcpyKind kind,
                     std::shared_ptr<Operation>* copy);
// Errors: hipErrorInvalidValue, noted as misuse, unless all is memory of a device.
hipError_t make_fill(void* to, int byte, size_t bytes, std::shared_ptr<Operation>* fill);
// Frees device memory when it runs.
std::shared_ptr<Operation> make_free(void* data);

}  // namespace encore::standin
