// Defects of versions and sizes: all below the C++ interfaces, in the table itself.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <string_view>
#include <vector>

#include "defect_families.h"
#include "encore/sdk/abi_status.h"

namespace encore::defects {
namespace {

encore_backend_table sound;  // what the functions below stand in front of

template <AlterTable kAlter>
void remember(encore_backend_table* table, const encore_host_info* host) {
  sound = *table;
  kAlter(table, host);
}

// Takes the log function from every host, whatever its size.
void host_info_overread(encore_backend_table* table, const encore_host_info* host) {
  static std::atomic<encore_log_fn> log;
  log = host->log;
  static_cast<void>(table);
}

// Speaks its own minor version and older ones only.
void newer_host_refused(encore_backend_table* table, const encore_host_info* host) {
  if (host->abi_minor > ENCORE_ABI_MINOR) table->abi_major = ENCORE_ABI_MAJOR + 1;
}

void output_overrun(encore_backend_table* table, const encore_host_info* host) {
  static_cast<void>(host);
  table->device_memory = [](encore_backend* backend, int32_t device, encore_device_memory* memory,
                            encore_error* error) {
    encore_device_memory whole = {sizeof(whole), 0, 0};
    const encore_status code = sound.device_memory(backend, device, &whole, error);
    memory->total_bytes = whole.total_bytes;
    memory->free_bytes = whole.free_bytes;
    return code;
  };
}

void size_overwritten(encore_backend_table* table, const encore_host_info* host) {
  static_cast<void>(host);
  table->kv_info = [](encore_kv* kv, encore_kv_info* info, encore_error* error) {
    const encore_status code = sound.kv_info(kv, info, error);
    info->struct_size = std::min<uint64_t>(info->struct_size, sizeof(encore_kv_info));
    return code;
  };
}

void longer_struct_refused(encore_backend_table* table, const encore_host_info* host) {
  static_cast<void>(host);
  table->kv_create = [](encore_model* model, const encore_kv_options* options, encore_kv** kv,
                        encore_error* error) {
    if (options->struct_size <= sizeof(*options)) return sound.kv_create(model, options, kv, error);
    return sdk::report(invalid_argument("struct_size is unknown"), ENCORE_SCOPE_REQUEST, error);
  };
}

void input_overread(encore_backend_table* table, const encore_host_info* host) {
  static_cast<void>(host);
  table->kv_create = [](encore_model* model, const encore_kv_options* options, encore_kv** kv,
                        encore_error* error) {
    const encore_kv_options whole = {sizeof(whole), options->num_pages, options->page_size,
                                     options->dtype, options->guards};
    return sound.kv_create(model, &whole, kv, error);
  };
}

void stride_ignored(encore_backend_table* table, const encore_host_info* host) {
  static_cast<void>(host);
  table->kv_copy = [](encore_kv* kv, const encore_page_copy* copies, uint64_t count,
                      uint64_t stride, encore_error* error) {
    static_cast<void>(stride);
    return sound.kv_copy(kv, copies, count, sizeof(encore_page_copy), error);
  };
}

void extension_by_prefix(encore_backend_table* table, const encore_host_info* host) {
  static_cast<void>(host);
  table->get_extension = [](encore_backend* backend, const char* name, uint64_t size) {
    constexpr std::string_view kGuards = ENCORE_EXTENSION_GUARDS;
    if (!std::string_view(name, size).starts_with(kGuards)) {
      return sound.get_extension(backend, name, size);
    }
    return sound.get_extension(backend, kGuards.data(), kGuards.size());
  };
}

void vendor_empty(encore_backend_table* table, const encore_host_info* host) {
  static_cast<void>(host);
  table->vendor_size = 0;
}

void option_without_help(encore_backend_table* table, const encore_host_info* host) {
  static_cast<void>(host);
  table->option_schema = [](encore_backend* backend, encore_option_list* list,
                            encore_error* error) {
    const encore_status code = sound.option_schema(backend, list, error);
    constexpr uint64_t kNeeded = offsetof(encore_option_list, options_stride) + sizeof(uint64_t);
    if (code != ENCORE_OK || list->struct_size < kNeeded) return code;
    static const std::vector<encore_option_schema> silent = [&] {
      std::vector<encore_option_schema> options(list->options, list->options + list->options_count);
      for (encore_option_schema& option : options) option.help_size = 0;
      return options;
    }();
    list->options = silent.data();
    return code;
  };
}

void error_overrun(encore_backend_table* table, const encore_host_info* host) {
  static_cast<void>(host);
  table->device_info = [](encore_backend* backend, int32_t device, encore_device_info* info,
                          encore_error* error) {
    encore_error whole{};
    sdk::prepare_error(&whole);
    const encore_status code = sound.device_info(backend, device, info, &whole);
    if (code == ENCORE_OK) return code;
    whole.struct_size = error->struct_size;
    std::memcpy(error, &whole, offsetof(encore_error, message) + whole.message_size);
    return code;
  };
}

// A device is named after how often it has been started.
class DeviceRenamed final : public Defect {
 public:
  Status init(Backend& backend, const OptionValues& options) override {
    ++inits_;
    return Defect::init(backend, options);
  }
  Result<DeviceInfo> device_info(const Backend& backend, int32_t device) override {
    ENCORE_ASSIGN_OR_RETURN(DeviceInfo info, Defect::device_info(backend, device));
    info.id.append(".").append(std::to_string(inits_));
    return info;
  }

 private:
  std::atomic<int32_t> inits_ = 0;
};

}  // namespace

std::span<const DefectEntry> negotiation_defects() {
  static const DefectEntry entries[] = {
      {"host_info_overread", nullptr, remember<host_info_overread>},
      {"newer_host_refused", nullptr, remember<newer_host_refused>},
      {"output_overrun", nullptr, remember<output_overrun>},
      {"size_overwritten", nullptr, remember<size_overwritten>},
      {"longer_struct_refused", nullptr, remember<longer_struct_refused>},
      {"input_overread", nullptr, remember<input_overread>},
      {"stride_ignored", nullptr, remember<stride_ignored>},
      {"extension_by_prefix", nullptr, remember<extension_by_prefix>},
      {"vendor_empty", nullptr, remember<vendor_empty>},
      {"option_without_help", nullptr, remember<option_without_help>},
      {"error_overrun", nullptr, remember<error_overrun>},
      defect<DeviceRenamed>("device_renamed"),
  };
  return entries;
}

}  // namespace encore::defects
