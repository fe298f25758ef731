// Rules N on what a plugin says of itself.
#include <cstring>
#include <set>
#include <string>
#include <string_view>

#include "claims.h"
#include "encore/loader/options.h"
#include "encore/sdk/abi_struct.h"
#include "negotiation_rule_bodies.h"
#include "raw_plugin.h"

namespace encore::check {
namespace {

// Extensions that this version defines.
constexpr std::string_view kKnown[] = {
    ENCORE_EXTENSION_LAYER_OBSERVERS, ENCORE_EXTENSION_DEVICE_LIMITS, ENCORE_EXTENSION_GUARDS,
    ENCORE_EXTENSION_MEMORY_PLAN,     ENCORE_EXTENSION_LAZY_CAPTURE,  ENCORE_EXTENSION_STEP_TRACE,
    ENCORE_EXTENSION_FAULT_INJECTION};
constexpr uint64_t kLargestExtensionBytes = 65536;

const void* find_extension(const encore_backend_table& table, std::string_view name) {
  return table.get_extension(table.backend, name.data(), name.size());
}

std::string identity_text(const encore_backend_table& table) {
  const auto text = [](const char* data, uint64_t size) { return sdk::text_from_abi(data, size); };
  return text(table.name, table.name_size) + ", " + text(table.vendor, table.vendor_size) + ", " +
         text(table.version, table.version_size) + ", " + text(table.build_id, table.build_id_size);
}

std::string identity_fault(const encore_backend_table& table) {
  const auto check = [](const char* what, const char* data, uint64_t size) -> std::string {
    if (data == nullptr || size == 0) return std::string("its ") + what + " is empty";
    const std::string_view text(data, size);
    if (sdk::valid_utf8(text) == text) return "";
    return std::string("its ") + what + " is not valid UTF-8";
  };
  for (std::string fault : {check("vendor", table.vendor, table.vendor_size),
                            check("version", table.version, table.version_size),
                            check("build_id", table.build_id, table.build_id_size)}) {
    if (!fault.empty()) return fault;
  }
  return "";
}

std::string schema_text(const std::vector<OptionSchema>& schema) {
  std::string text;
  for (const OptionSchema& option : schema) {
    text += option.key + "=" + option.default_value + " type " +
            std::to_string(static_cast<int32_t>(option.type)) + " from " +
            std::to_string(option.minimum) + " to " + std::to_string(option.maximum);
    for (const std::string& choice : option.choices) text.append(" ").append(choice);
    text.append("\n");
  }
  return text;
}

// All devices with their names, as one text.
Result<std::string> device_list(const RawSession& session) {
  const encore_backend_table& table = session.table();
  int32_t count = 0;
  ENCORE_RETURN_IF_ERROR(raw_call(table.device_count, table.backend, &count).status());
  ENCORE_ASSIGN_OR_RETURN(count, checked_device_count(count));
  if (session.device() >= count) return internal_error("there is no device");
  std::string list;
  std::set<std::string> ids;
  for (int32_t device = 0; device < count; ++device) {
    auto info = sdk::sized<encore_device_info>();
    ENCORE_RETURN_IF_ERROR(raw_call(table.device_info, table.backend, device, &info).status());
    ENCORE_ASSIGN_OR_RETURN(const DeviceInfo read, read_device_info(info));
    if (!ids.insert(read.id).second) {
      return internal_error("two devices have the id '" + read.id + "'");
    }
    if (read.id.empty() || read.name.empty() || read.architecture.empty()) {
      return internal_error("id, name or architecture of device " + std::to_string(device) +
                            " is empty");
    }
    if ((read.capabilities & kCapabilityEager) == 0) {
      return internal_error("device " + std::to_string(device) + " has no eager mode");
    }
    auto memory = sdk::sized<encore_device_memory>();
    ENCORE_RETURN_IF_ERROR(raw_call(table.device_memory, table.backend, device, &memory).status());
    ENCORE_RETURN_IF_ERROR(read_device_memory(memory).status());
    list += read.id + " " + read.name + " " + read.architecture + " " +
            std::to_string(read.capabilities) + "\n";
  }
  return list;
}

}  // namespace

Outcome extensions_are_found_by_name(const CheckContext& context) {
  const RawSession session(context);
  if (!session.ok()) return session.outcome();
  const encore_backend_table& table = session.table();
  if (table.get_extension == nullptr) return pass();
  const std::string long_name(10000, 'x');
  for (const std::string_view name : {std::string_view(), std::string_view("encore.no_such_thing"),
                                      std::string_view("encore."), std::string_view(long_name)}) {
    if (find_extension(table, name) != nullptr) {
      return fail("get_extension found something for the name '" + std::string(name.substr(0, 40)) +
                  "'; a name that the plugin does not know is null");
    }
  }
  for (const std::string_view name : kKnown) {
    const void* found = find_extension(table, name);
    if (find_extension(table, std::string(name) + "2") != nullptr) {
      return fail("get_extension found something for '" + std::string(name) +
                  "2'; names are compared whole");
    }
    // The name has a length and no final zero.
    const std::string longer = std::string(name) + "X";
    if (find_extension(table, std::string_view(longer).substr(0, name.size())) != found) {
      return fail("get_extension reads '" + std::string(name) + "' beyond its length");
    }
    if (found == nullptr) continue;
    uint64_t size = 0;
    std::memcpy(&size, found, sizeof(size));
    if (size < 2 * sizeof(uint64_t) || size > kLargestExtensionBytes) {
      return fail("extension " + std::string(name) + " starts with a struct_size of " +
                  std::to_string(size));
    }
  }
  return pass();
}

Outcome identity_is_stable(const CheckContext& context) {
  RawSession session(context);
  if (!session.ok()) return session.outcome();
  const Result<RawEntry> entry = open_entry(context.plugin_path);
  if (!entry.ok()) return skip(entry.status().message());
  const std::string before = identity_text(session.table());
  if (std::string fault = identity_fault(session.table()); !fault.empty()) {
    return fail(std::move(fault));
  }
  session.shutdown();
  RawResult called;
  sdk::prepare_error(&called.error);
  const encore_backend_table* again = entry->call(plain_host(), &called.error);
  if (again == nullptr) return fail("after shutdown() the entry function gives no table");
  const std::string after = identity_text(*again);
  return before == after ? pass() : fail("it was '" + before + "' and is now '" + after + "'");
}

Outcome schema_is_stable(const CheckContext& context) {
  RawSession session(context);
  if (!session.ok()) return session.outcome();
  const Result<std::vector<OptionSchema>> running = read_schema(session.table());
  if (!running.ok()) return fail(running.status().message());
  for (const OptionSchema& option : *running) {
    if (option.help.empty()) return fail("option '" + option.key + "' has no help");
  }
  const Result<OptionValues> defaults = check_options(*running, {});
  if (!defaults.ok()) return fail("its own defaults: " + defaults.status().message());
  session.shutdown();
  const Result<std::vector<OptionSchema>> ended = read_schema(session.table());
  if (!ended.ok()) return fail("after shutdown(): " + ended.status().message());
  if (schema_text(*running) == schema_text(*ended)) return pass();
  return fail("the schema was\n" + schema_text(*running) + "and after shutdown() it is\n" +
              schema_text(*ended));
}

Outcome devices_are_stable(const CheckContext& context) {
  RawSession session(context);
  if (!session.ok()) return session.outcome();
  const Result<std::string> before = device_list(session);
  if (!before.ok()) return fail(before.status().message());
  session.shutdown();
  const Status started = session.init();
  if (!started.ok()) return fail("init() after shutdown(): " + started.to_string());
  const Result<std::string> after = device_list(session);
  if (!after.ok()) return fail(after.status().message());
  return *before == *after ? pass() : fail("devices were\n" + *before + "and are now\n" + *after);
}

}  // namespace encore::check
