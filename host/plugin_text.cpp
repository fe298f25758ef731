#include "plugin_text.h"

#include "device_modes.h"
#include "open_backend.h"
#include "text_table.h"

namespace encore {
namespace {

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

// What any of its devices offers: they rarely differ.
std::string modes_text(const PluginReport& report) {
  uint64_t capabilities = 0;
  for (const DeviceReport& device : report.devices) capabilities |= device.info.capabilities;
  return or_dash(capability_names(capabilities));
}

std::string abi_cell(const PluginRecord& record) {
  return abi_text(record.abi) + " / " + abi_text(host_abi()) + " / " +
         abi_text(record.effective_abi);
}

std::string devices_cell(const PluginReport& report) {
  return report.record.state == PluginState::kLoaded ? std::to_string(report.devices.size()) : "-";
}

std::string library_of(const PluginRecord& record) {
  if (!record.real_path.empty()) return record.real_path;
  return record.path.empty() ? record.manifest : record.path;
}

// Why the plugin, or one of its variants, is not used; nothing if there is nothing to say.
std::string problems_text(const PluginReport& report) {
  const PluginRecord& record = report.record;
  std::string out;
  if (record.failure) {
    out += "rejected     " + label_of(record) + ": " + failure_text(*record.failure) + "\n";
  }
  if (record.state == PluginState::kUnavailable) {
    out += "unavailable  " + label_of(record) + ": " + record.reason + "\n";
  }
  if (!report.devices_status.ok()) {
    out += "no devices   " + label_of(record) + ": " + report.devices_status.message() + "\n";
  }
  for (const VariantVerdict& variant : record.variants) {
    if (variant.state != VariantState::kRejected || !variant.failure) continue;
    out += "rejected     " + label_of(record) + ", variant " + variant.name + ": " +
           failure_text(*variant.failure) + "\n";
  }
  return out;
}

std::string folder_text(const SearchedFolder& folder) {
  std::string text = "  " + folder.source + ": " + folder.path + ": ";
  if (!folder.skipped.empty()) return text + folder.skipped + "\n";
  return text + std::to_string(folder.num_manifests) + " manifests\n";
}

std::string devices_text(const PluginReport& report) {
  TextTable table({"device", "id", "name", "architecture", "free memory", "modes"});
  int32_t index = 0;
  for (const DeviceReport& device : report.devices) {
    table.add_row({std::to_string(index++), device.info.id, device.info.name,
                   device.info.architecture,
                   format_bytes(static_cast<double>(device.memory.free_bytes)) + " of " +
                       format_bytes(static_cast<double>(device.memory.total_bytes)),
                   capability_names(device.info.capabilities)});
  }
  return table.text();
}

std::string variants_text(std::span<const VariantVerdict> variants) {
  TextTable table({"variant", "verdict", "library", "why"});
  for (const VariantVerdict& variant : variants) {
    table.add_row({or_dash(variant.name), std::string(variant_state_name(variant.state)),
                   variant.library, variant.reason});
  }
  return table.text();
}

std::string line(const char* what, const std::string& value) {
  if (value.empty()) return "";
  std::string out = what;
  out.append(out.size() < 12 ? 12 - out.size() : 1, ' ');
  return out + value + "\n";
}

}  // namespace

std::string plugin_list_text(std::span<const PluginReport> reports,
                             std::span<const SearchedFolder> folders) {
  if (reports.empty()) {
    std::string out = "no plugin found; plugins.load is empty, and these folders were searched:\n";
    for (const SearchedFolder& folder : folders) out += folder_text(folder);
    return out;
  }
  TextTable what({"name", "version", "vendor", "state", "variant", "ABI plugin / host / used",
                  "devices", "modes"});
  TextTable where({"name", "source", "conformance claimed", "library"});
  std::string problems;
  for (const PluginReport& report : reports) {
    const PluginRecord& record = report.record;
    const std::string name = or_dash(record.name);
    what.add_row({name, or_dash(record.version), or_dash(record.vendor),
                  std::string(plugin_state_name(record.state)), or_dash(record.variant),
                  abi_cell(record), devices_cell(report), modes_text(report)});
    where.add_row({name, record.source, or_dash(record.conformance), or_dash(library_of(record))});
    problems += problems_text(report);
  }
  for (const SearchedFolder& folder : folders) {
    for (const std::string& library : folder.stray_libraries) {
      problems += "left alone   " + library + ": no manifest in its folder names it\n";
    }
  }
  std::string out = what.text() + "\n" + where.text();
  return problems.empty() ? out : out + "\n" + problems;
}

std::string plugin_description_text(const PluginReport& report) {
  const PluginRecord& record = report.record;
  std::string aliases;
  for (const std::string& alias : record.aliases) aliases += (aliases.empty() ? "" : ", ") + alias;
  std::string extensions;
  for (const std::string& name : record.extensions) {
    extensions += (extensions.empty() ? "" : ", ") + name;
  }
  std::string out = line("name", record.name) + line("vendor", record.vendor);
  out += line("version", record.version) + line("build", record.build_id);
  out += line("state", std::string(plugin_state_name(record.state)));
  out += line("why", record.failure ? failure_text(*record.failure) : record.reason);
  out += line("ABI", std::string("plugin ") + abi_text(record.abi) + ", host " +
                         abi_text(host_abi()) + ", used " + abi_text(record.effective_abi));
  out += line("source", record.source) + line("manifest", record.manifest);
  out += line("library", record.path);
  if (record.real_path != record.path) out += line("real path", record.real_path);
  out += line("also found", aliases) + line("variant", record.variant);
  out += line("claimed", record.conformance);
  if (record.backend != nullptr) {
    out += line("extensions", extensions.empty() ? "none" : extensions);
  }
  if (record.state == PluginState::kLoaded) {
    out += "\ndevices\n" + devices_text(report);
    if (!report.devices_status.ok()) {
      out += "problem: " + report.devices_status.message() + "\n";
    }
  }
  if (!report.options.empty()) out += "\nbackend.options\n" + options_text(report.options);
  if (!record.variants.empty()) out += "\nvariants, best first\n" + variants_text(record.variants);
  return out;
}

std::string options_text(std::span<const OptionSchema> options) {
  TextTable table({"option", "default", "value", "meaning"});
  for (const OptionSchema& option : options) {
    table.add_row({option.key, option.default_value, describe_option(option), option.help});
  }
  return table.text();
}

}  // namespace encore
