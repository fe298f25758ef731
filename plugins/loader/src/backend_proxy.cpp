#include "backend_proxy.h"

#include "abi_call.h"
#include "claims.h"
#include "encore/sdk/abi_struct.h"
#include "encore/sdk/abi_text.h"
#include "model_proxy.h"
#include "plugin_log.h"
#include "to_abi.h"

namespace encore {
namespace {

using StatList = std::vector<std::pair<std::string, int64_t>>;

void collect_stat(void* context, const char* name, uint64_t name_size, int64_t value) noexcept {
  auto& stats = *static_cast<StatList*>(context);
  if (stats.size() < kMaxStats) stats.emplace_back(sdk::text_from_abi(name, name_size), value);
}

}  // namespace

Status BackendProxy::require_init(const char* function) const {
  if (initialised_) return {};
  return failed_precondition(std::string(function) + " of backend '" + context_->identity.name +
                             "' is called before init()");
}

ProbeResult BackendProxy::probe() const {
  auto result = sdk::sized<encore_probe_result>();
  const Status status = abi_call(table().probe, table().backend, &result);
  if (!status.ok()) return {.usable = false, .reason = status.to_string()};
  return {.usable = result.usable != 0,
          .reason = text_from_array(result.reason, result.reason_size)};
}

Status BackendProxy::init(const OptionValues& options) {
  const std::vector<encore_option_value> values = option_values_to_abi(options);
  ENCORE_RETURN_IF_ERROR(abi_call(table().init, table().backend, values.data(), values.size(),
                                  sizeof(encore_option_value)));
  initialised_ = true;
  return {};
}

void BackendProxy::stop() {
  if (initialised_.exchange(false)) table().shutdown(table().backend);
}

int32_t BackendProxy::device_count() const {
  if (!initialised_) return 0;
  int32_t count = 0;
  const Status status = abi_call(table().device_count, table().backend, &count);
  const Result<int32_t> checked = status.ok() ? checked_device_count(count) : status;
  if (checked.ok()) return *checked;
  plugin_log(sdk::LogLevel::kError, "backend '" + context_->identity.name +
                                        "': no devices: " + checked.status().to_string());
  return 0;
}

Result<DeviceInfo> BackendProxy::device_info(int32_t device) const {
  ENCORE_RETURN_IF_ERROR(require_init("device_info"));
  auto info = sdk::sized<encore_device_info>();
  ENCORE_RETURN_IF_ERROR(abi_call(table().device_info, table().backend, device, &info));
  return read_device_info(info);
}

Result<DeviceMemory> BackendProxy::device_memory(int32_t device) const {
  ENCORE_RETURN_IF_ERROR(require_init("device_memory"));
  auto memory = sdk::sized<encore_device_memory>();
  ENCORE_RETURN_IF_ERROR(abi_call(table().device_memory, table().backend, device, &memory));
  return read_device_memory(memory);
}

Result<DeviceLimits> BackendProxy::measure_limits(int32_t device) {
  ENCORE_RETURN_IF_ERROR(require_init("measure_limits"));
  if (context_->limits.measure == nullptr) {
    return unimplemented("backend '" + context_->identity.name + "' does not offer " +
                         ENCORE_EXTENSION_DEVICE_LIMITS);
  }
  auto limits = sdk::sized<encore_device_limits>();
  ENCORE_RETURN_IF_ERROR(abi_call(context_->limits.measure, table().backend, device, &limits));
  return read_device_limits(limits);
}

Status BackendProxy::check_model(int32_t device, const ModelSpec& spec,
                                 std::span<const WeightInfo> weights) const {
  ENCORE_RETURN_IF_ERROR(require_init("check_model"));
  const encore_model_spec abi_spec = model_spec_to_abi(spec);
  const std::vector<encore_weight_info> infos = weights_to_abi(weights);
  return abi_call(table().model_check, table().backend, device, &abi_spec, infos.data(),
                  infos.size(), sizeof(encore_weight_info));
}

Result<std::unique_ptr<Model>> BackendProxy::load_model(int32_t device, const ModelSpec& spec,
                                                        const WeightSource& weights,
                                                        const LoadOptions& options) {
  ENCORE_RETURN_IF_ERROR(require_init("load_model"));
  return ModelProxy::load(context_, device, spec, weights, options);
}

std::vector<std::pair<std::string, int64_t>> BackendProxy::stats() const {
  StatList stats;
  if (table().stats == nullptr || !initialised_) return stats;
  const Status status =
      abi_call(table().stats, table().backend, collect_stat, static_cast<void*>(&stats));
  if (!status.ok()) {
    plugin_log(sdk::LogLevel::kWarn,
               "backend '" + context_->identity.name + "': no counters: " + status.to_string());
  }
  return stats;
}

Status BackendProxy::selftest(int32_t device) {
  ENCORE_RETURN_IF_ERROR(require_init("selftest"));
  if (table().selftest == nullptr) {
    return unimplemented("backend '" + context_->identity.name + "' has no selftest");
  }
  return abi_call(table().selftest, table().backend, device);
}

}  // namespace encore
