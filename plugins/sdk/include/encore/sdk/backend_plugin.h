// Turns a C++ encore::Backend into a plugin. A whole plugin is:
//
//   #include "encore/sdk/backend_plugin.h"
//   class MyBackend : public encore::Backend { ... };
//   ENCORE_EXPORT_BACKEND(MyBackend)
//
// built with encore_add_backend() of cmake/EncoreBackend.cmake, which hides everything but the
// entry function. The interfaces to implement are in encore/backend.h.
//
// Exceptions thrown by the author's code become errors of code kInternal with their what(). The
// backend is made when the host first asks for it and is never destroyed: shutdown() ends its
// threads, and the library stays mapped until the process ends.
#pragma once

#include <memory>
#include <mutex>

#include "encore/backend.h"
#include "encore/backend_abi.h"
#include "encore/sdk/abi_status.h"
#include "encore/sdk/abi_struct.h"
#include "encore/sdk/handles.h"
#include "encore/sdk/host.h"
#include "encore/sdk/trampolines.h"

namespace encore::sdk {

inline void fill_table(encore_backend* self) {
  const BackendIdentity& identity = self->identity;
  self->table = {
      .magic = ENCORE_ABI_MAGIC,
      .struct_size = sizeof(encore_backend_table),
      .abi_major = ENCORE_ABI_MAJOR,
      .abi_minor = ENCORE_ABI_MINOR,
      .name = identity.name.data(),
      .name_size = identity.name.size(),
      .vendor = identity.vendor.data(),
      .vendor_size = identity.vendor.size(),
      .version = identity.version.data(),
      .version_size = identity.version.size(),
      .build_id = identity.build_id.data(),
      .build_id_size = identity.build_id.size(),
      .backend = self,
      .probe = probe,
      .option_schema = option_schema,
      .init = init,
      .shutdown = shutdown,
      .device_count = device_count,
      .device_info = device_info,
      .device_memory = device_memory,
      .model_check = model_check,
      .model_load = model_load,
      .model_info = model_info,
      .model_free = model_free,
      .kv_create = kv_create,
      .kv_info = kv_info,
      .kv_copy = kv_copy,
      .kv_read = kv_read,
      .kv_free = kv_free,
      .eager_create = create_runner<&Model::create_eager>,
      .prefill_capture = create_runner<&Model::capture_prefill>,
      .decode_capture = create_runner<&Model::capture_decode>,
      .runner_check = runner_check,
      .runner_submit = runner_submit,
      .runner_wait = runner_wait,
      .runner_free = runner_free,
      .stats = stats,
      .selftest = selftest,
      .get_extension = get_extension,
  };
}

// The plugin's one backend, made at the first call. A constructor that throws is tried again at
// the next call.
template <typename BackendT>
encore_backend* the_backend(const encore_host_info* host) {
  static std::mutex mutex;
  static encore_backend* backend = nullptr;
  const std::lock_guard<std::mutex> lock(mutex);
  if (backend == nullptr) {
    host_info = read_sized(host);
    auto made = std::make_unique<encore_backend>(std::make_unique<BackendT>());
    fill_table(made.get());
    backend = made.release();
  }
  return backend;
}

template <typename BackendT>
const encore_backend_table* entry(const encore_host_info* host, encore_error* error) noexcept {
  const encore_backend_table* table = nullptr;
  guarded(ENCORE_SCOPE_REQUEST, error, [&]() -> Status {
    table = &the_backend<BackendT>(host)->table;
    return {};
  });
  return table;
}

}  // namespace encore::sdk

#define ENCORE_EXPORT_BACKEND(BackendT)                                         \
  extern "C" __attribute__((visibility("default"))) const encore_backend_table* \
  encore_backend_entry(const encore_host_info* host, encore_error* error) {     \
    return ::encore::sdk::entry<BackendT>(host, error);                         \
  }
