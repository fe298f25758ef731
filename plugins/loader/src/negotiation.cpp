#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "claims.h"
#include "encore/sdk/abi_status.h"
#include "encore/sdk/abi_struct.h"
#include "plugin_context.h"
#include "stage_error.h"

namespace encore {
namespace {

using sdk::kMaxTextBytes;
using sdk::text_from_abi;

constexpr size_t kMaxNameBytes = 64;
// Up to the first optional function: what every plugin has.
constexpr uint64_t kSmallestTable = offsetof(encore_backend_table, stats);

// The fields frozen for ever.
struct Prefix {
  uint64_t magic;
  uint64_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
};
static_assert(sizeof(Prefix) == offsetof(encore_backend_table, name));

std::string version_text(uint32_t major, uint32_t minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

// The code of what is wrong, or kNone; `*message` says it in words.
LoadCode check_prefix(const Prefix& prefix, std::string* message) {
  if (prefix.magic != ENCORE_ABI_MAGIC) {
    *message =
        "its table does not start with Encore's magic number; the plugin is damaged or was built "
        "for something else";
    return LoadCode::kMagic;
  }
  if (prefix.abi_major != ENCORE_ABI_MAJOR) {
    *message = "it speaks backend ABI " + version_text(prefix.abi_major, prefix.abi_minor) +
               ", this host " + version_text(ENCORE_ABI_MAJOR, ENCORE_ABI_MINOR) +
               "; the major numbers must be equal: use a plugin built for this version of Encore";
    return LoadCode::kMajor;
  }
  if (prefix.struct_size < kSmallestTable || prefix.struct_size > kMaxStructBytes) {
    *message = "its table states a size of " + std::to_string(prefix.struct_size) + " bytes; " +
               std::to_string(kSmallestTable) + " to " + std::to_string(kMaxStructBytes) +
               " were expected; it was not built from Encore's headers";
    return LoadCode::kTableSize;
  }
  return LoadCode::kNone;
}

Status check_functions(const encore_backend_table& table) {
  std::string missing;
#define ENCORE_REQUIRE(function) \
  if (table.function == nullptr) missing += missing.empty() ? #function : ", " #function
  ENCORE_REQUIRE(probe);
  ENCORE_REQUIRE(option_schema);
  ENCORE_REQUIRE(init);
  ENCORE_REQUIRE(shutdown);
  ENCORE_REQUIRE(device_count);
  ENCORE_REQUIRE(device_info);
  ENCORE_REQUIRE(device_memory);
  ENCORE_REQUIRE(model_check);
  ENCORE_REQUIRE(model_load);
  ENCORE_REQUIRE(model_info);
  ENCORE_REQUIRE(model_free);
  ENCORE_REQUIRE(kv_create);
  ENCORE_REQUIRE(kv_info);
  ENCORE_REQUIRE(kv_copy);
  ENCORE_REQUIRE(kv_read);
  ENCORE_REQUIRE(kv_free);
  ENCORE_REQUIRE(eager_create);
  ENCORE_REQUIRE(prefill_capture);
  ENCORE_REQUIRE(decode_capture);
  ENCORE_REQUIRE(runner_check);
  ENCORE_REQUIRE(runner_submit);
  ENCORE_REQUIRE(runner_wait);
  ENCORE_REQUIRE(runner_free);
#undef ENCORE_REQUIRE
  if (missing.empty()) return {};
  return failed_precondition("its table lacks required functions: " + missing +
                             "; each has a line in encore/backend_abi.h");
}

Result<BackendIdentity> read_identity(const encore_backend_table& table) {
  BackendIdentity identity;
  identity.name = text_from_abi(table.name, table.name_size, kMaxNameBytes + 1);
  const bool legal = std::all_of(identity.name.begin(), identity.name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  });
  if (identity.name.empty() || identity.name.size() > kMaxNameBytes || !legal) {
    return failed_precondition("its name is '" + identity.name + "'; a name has 1 to " +
                               std::to_string(kMaxNameBytes) + " of the characters a-z 0-9 . _ -");
  }
  identity.vendor = text_from_abi(table.vendor, table.vendor_size);
  identity.version = text_from_abi(table.version, table.version_size);
  identity.build_id = text_from_abi(table.build_id, table.build_id_size);
  return identity;
}

// The extension of that name if the plugin offers a believable one; all zero otherwise.
template <typename T>
T read_extension(PluginContext& context, std::string_view name) {
  const encore_backend_table& table = context.table;
  if (table.get_extension == nullptr) return {};
  const void* found = table.get_extension(table.backend, name.data(), name.size());
  if (found != nullptr) context.extensions.emplace_back(name);
  return sdk::read_sized(static_cast<const T*>(found));
}

}  // namespace

Result<std::shared_ptr<const PluginContext>> negotiate(const encore_backend_table* raw,
                                                       LoadCode* code) {
  const auto address = reinterpret_cast<uintptr_t>(raw);
  if (address % alignof(encore_backend_table) != 0) {
    return stage_error(code, LoadCode::kTableAddress,
                       failed_precondition("its table's address is not a multiple of " +
                                           std::to_string(alignof(encore_backend_table)) +
                                           "; the plugin is damaged"));
  }
  Prefix prefix = {};
  std::memcpy(&prefix, raw, sizeof(prefix));
  std::string wrong;
  const LoadCode prefix_code = check_prefix(prefix, &wrong);
  if (prefix_code != LoadCode::kNone) {
    return stage_error(code, prefix_code, failed_precondition(std::move(wrong)));
  }
  auto context = std::make_shared<PluginContext>();
  std::memcpy(&context->table, raw,
              std::min<size_t>(prefix.struct_size, sizeof(encore_backend_table)));
  const encore_backend_table& table = context->table;
  Status functions = check_functions(table);
  if (!functions.ok()) {
    return stage_error(code, LoadCode::kFunctionMissing, std::move(functions));
  }
  Result<BackendIdentity> identity = read_identity(table);
  if (!identity.ok()) return stage_error(code, LoadCode::kIdentity, identity.status());
  context->identity = std::move(identity).value();
  Result<std::vector<OptionSchema>> schema = read_schema(table);
  if (!schema.ok()) return stage_error(code, LoadCode::kSchema, schema.status());
  context->schema = std::move(schema).value();
  context->observers =
      read_extension<encore_layer_observers_extension>(*context, ENCORE_EXTENSION_LAYER_OBSERVERS);
  context->limits =
      read_extension<encore_device_limits_extension>(*context, ENCORE_EXTENSION_DEVICE_LIMITS);
  context->guards = read_extension<encore_guards_extension>(*context, ENCORE_EXTENSION_GUARDS);
  context->plan =
      read_extension<encore_memory_plan_extension>(*context, ENCORE_EXTENSION_MEMORY_PLAN);
  context->lazy =
      read_extension<encore_lazy_capture_extension>(*context, ENCORE_EXTENSION_LAZY_CAPTURE);
  context->trace =
      read_extension<encore_step_trace_extension>(*context, ENCORE_EXTENSION_STEP_TRACE);
  context->faults =
      read_extension<encore_fault_injection_extension>(*context, ENCORE_EXTENSION_FAULT_INJECTION);
  return std::shared_ptr<const PluginContext>(std::move(context));
}

}  // namespace encore
