#include "plugin_json.h"

#include <nlohmann/json.hpp>
#include <string>

#include "device_modes.h"

namespace encore {
namespace {

using Json = nlohmann::ordered_json;

// Grows when a field changes its meaning or goes; new fields leave it alone.
constexpr int kSchema = 1;

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json abi_json(AbiVersion version) {
  return version.major == 0 && version.minor == 0 ? Json() : Json(abi_text(version));
}

Json host_json() { return {{"version", ENCORE_VERSION}, {"abi", abi_text(host_abi())}}; }

Json failure_json(const std::optional<LoadFailure>& failure) {
  if (!failure) return {};
  return {{"stage", load_stage_name(failure->stage())},
          {"code", static_cast<int32_t>(failure->code)},
          {"code_name", load_code_name(failure->code)},
          {"path", failure->path},
          {"message", failure->message}};
}

Json devices_json(const PluginReport& report) {
  Json devices = Json::array();
  for (const DeviceReport& device : report.devices) {
    devices.push_back({{"index", devices.size()},
                       {"id", device.info.id},
                       {"name", device.info.name},
                       {"architecture", device.info.architecture},
                       {"modes", mode_names(device.info.capabilities)},
                       {"total_bytes", device.memory.total_bytes},
                       {"free_bytes", device.memory.free_bytes}});
  }
  return devices;
}

Json variants_json(const PluginRecord& record) {
  Json variants = Json::array();
  for (const VariantVerdict& variant : record.variants) {
    variants.push_back({{"name", or_null(variant.name)},
                        {"library", variant.library},
                        {"state", variant_state_name(variant.state)},
                        {"reason", or_null(variant.reason)},
                        {"failure", failure_json(variant.failure)}});
  }
  return variants;
}

Json plugin_json(const PluginReport& report) {
  const PluginRecord& record = report.record;
  Json json;
  json["name"] = or_null(record.name);
  json["vendor"] = or_null(record.vendor);
  json["version"] = or_null(record.version);
  json["build_id"] = or_null(record.build_id);
  json["abi"] = {{"plugin", abi_json(record.abi)},
                 {"host", abi_text(host_abi())},
                 {"effective", abi_json(record.effective_abi)}};
  json["state"] = plugin_state_name(record.state);
  json["reason"] = or_null(record.reason);
  json["failure"] = failure_json(record.failure);
  json["devices"] = devices_json(report);
  json["devices_problem"] = or_null(report.devices_status.message());
  json["source"] = record.source;
  json["manifest"] = or_null(record.manifest);
  json["path"] = or_null(record.path);
  json["real_path"] = or_null(record.real_path);
  json["aliases"] = record.aliases;
  json["variant"] = or_null(record.variant);
  json["variants"] = variants_json(record);
  json["conformance_claimed"] = or_null(record.conformance);
  return json;
}

const char* type_name(OptionType type) {
  switch (type) {
    case OptionType::kInt:
      return "int";
    case OptionType::kFloat:
      return "float";
    case OptionType::kBool:
      return "bool";
    case OptionType::kString:
      return "string";
    case OptionType::kEnum:
      return "enum";
  }
  return "unknown";
}

Json option_json(const OptionSchema& option) {
  const bool is_number = option.type == OptionType::kInt || option.type == OptionType::kFloat;
  const bool limited = is_number && option.minimum <= option.maximum;
  return {{"key", option.key},
          {"type", type_name(option.type)},
          {"default", option.default_value},
          {"minimum", limited ? Json(option.minimum) : Json()},
          {"maximum", limited ? Json(option.maximum) : Json()},
          {"choices", option.choices},
          {"help", option.help}};
}

}  // namespace

Json plugin_list_json(std::span<const PluginReport> reports,
                      std::span<const SearchedFolder> folders) {
  Json json;
  json["schema"] = kSchema;
  json["host"] = host_json();
  json["plugins"] = Json::array();
  for (const PluginReport& report : reports) json["plugins"].push_back(plugin_json(report));
  json["searched"] = Json::array();
  for (const SearchedFolder& folder : folders) {
    json["searched"].push_back({{"source", folder.source},
                                {"path", folder.path},
                                {"exists", folder.exists},
                                {"manifests", folder.num_manifests},
                                {"skipped", or_null(folder.skipped)},
                                {"left_alone", folder.stray_libraries}});
  }
  return json;
}

Json plugin_description_json(const PluginReport& report) {
  Json json;
  json["schema"] = kSchema;
  json["host"] = host_json();
  json["plugin"] = plugin_json(report);
  json["plugin"]["extensions"] = report.record.extensions;
  Json options = Json::array();
  for (const OptionSchema& option : report.options) options.push_back(option_json(option));
  json["plugin"]["options"] = std::move(options);
  return json;
}

}  // namespace encore
