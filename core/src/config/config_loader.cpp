#include "config/config_loader.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "config/field.h"
#include "config/key_table.h"
#include "config/yaml_tree.h"

namespace encore {
namespace {

namespace fs = std::filesystem;
using Kind = YamlNode::Kind;

constexpr std::string_view kOptions = "backend.options";
constexpr std::string_view kVariablePrefix = "ENCORE_";

std::string place(const std::string& name, int line) { return name + ":" + std::to_string(line); }

// Remembers where a key was written; for options, each of them.
void note_origin(const KeyInfo& key, const YamlNode& node, const std::string& where,
                 LoadedConfig& loaded) {
  const size_t colon = where.rfind(':');
  for (const auto& [name, value] : node.entries) {
    if (key.name != kOptions) break;
    loaded.origins[std::string(kOptions) + "." + name.text] =
        value.line > 0 && colon != std::string::npos ? place(where.substr(0, colon), name.line)
                                                     : where;
  }
  loaded.origins[std::string(key.name)] = where;
}

Status apply_key(const std::string& name, const YamlNode& node, const ValueSource& source,
                 LoadedConfig& loaded) {
  const KeyInfo* key = find_key(name);
  if (key == nullptr) {
    return invalid_argument(source.where + ": unknown key " + quoted_for_message(name) + "; " +
                            suggest_key(name));
  }
  ENCORE_RETURN_IF_ERROR(assign(*key, node, source, loaded.config));
  note_origin(*key, node, source.where, loaded);
  return {};
}

Status apply_section(const YamlNode& section, const YamlNode& body, const std::string& file,
                     const std::string& base_folder, LoadedConfig& loaded) {
  const std::vector<std::string> sections = config_sections();
  if (std::find(sections.begin(), sections.end(), section.text) == sections.end()) {
    return invalid_argument(place(file, section.line) + ": unknown section " +
                            quoted_for_message(section.text) + "; " + suggest_key(section.text));
  }
  if (body.kind == Kind::kNull) return {};
  if (body.kind != Kind::kMap) {
    return invalid_argument(place(file, section.line) + ": section \"" + section.text +
                            "\" holds a single value; it must be a map of keys");
  }
  for (const auto& [key, value] : body.entries) {
    const ValueSource source{place(file, key.line), base_folder};
    ENCORE_RETURN_IF_ERROR(apply_key(section.text + "." + key.text, value, source, loaded));
  }
  return {};
}

// A value from outside a file: YAML in brackets, else one plain text.
Result<YamlNode> parse_value(const std::string& text, const std::string& where) {
  YamlNode node;
  node.kind = Kind::kScalar;
  node.text = text;
  if (text.empty() || (text[0] != '[' && text[0] != '{')) return node;
  ENCORE_ASSIGN_OR_RETURN(node, parse_yaml(text, where));
  // Lines count from the text's start and would mislead.
  const auto forget_lines = [](const auto& self, YamlNode& at) -> void {
    at.line = 0;
    for (YamlNode& item : at.items) self(self, item);
    for (auto& [key, value] : at.entries) {
      self(self, key);
      self(self, value);
    }
  };
  forget_lines(forget_lines, node);
  return node;
}

Status apply_text(const std::string& key, const std::string& text, const std::string& where,
                  LoadedConfig& loaded) {
  ENCORE_ASSIGN_OR_RETURN(YamlNode node, parse_value(text, where));
  const ValueSource source{where, ""};
  const std::string prefix = std::string(kOptions) + ".";
  if (key.rfind(prefix, 0) != 0) return apply_key(key, node, source, loaded);
  YamlNode options;
  options.kind = Kind::kMap;
  YamlNode name;
  name.kind = Kind::kScalar;
  name.text = key.substr(prefix.size());
  options.entries.push_back({std::move(name), std::move(node)});
  return apply_key(std::string(kOptions), options, source, loaded);
}

// "ENCORE_KV_CACHE__PAGE_SIZE" -> "kv_cache.page_size"; nothing if it is not of that form.
std::optional<std::string> key_of_variable(const std::string& variable) {
  if (variable.rfind(kVariablePrefix, 0) != 0 || variable.find("__") == std::string::npos)
    return {};
  std::string key;
  for (size_t i = kVariablePrefix.size(); i < variable.size(); ++i) {
    const bool separator = variable.compare(i, 2, "__") == 0;
    const auto c = static_cast<unsigned char>(variable[i]);
    key += separator ? '.' : static_cast<char>(std::tolower(c));
    if (separator) ++i;
  }
  return key;
}

Result<std::string> read_text(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return not_found("configuration file " + path + " does not exist");
  if (!fs::is_regular_file(status)) {
    return not_found("configuration file " + path + " is not a regular file");
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    return not_found("configuration file " + path + " cannot be read: " + std::strerror(errno));
  }
  // One byte more than allowed, so that parse_yaml sees that it is too long.
  std::string text(kMaxConfigBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  return text;
}

Result<LoadedConfig> load(const ConfigSources& sources) {
  LoadedConfig loaded;
  if (!sources.file.empty()) {
    ENCORE_ASSIGN_OR_RETURN(const std::string text, read_text(sources.file));
    ENCORE_RETURN_IF_ERROR(apply_yaml(text, sources.file, loaded));
  }
  for (const auto& [variable, value] : sources.environment) {
    const std::optional<std::string> key = key_of_variable(variable);
    if (key) ENCORE_RETURN_IF_ERROR(apply_text(*key, value, variable, loaded));
  }
  for (const ConfigSources::Setting& setting : sources.settings) {
    const std::string where =
        setting.flag == "--set" ? setting.flag + " " + setting.key : setting.flag;
    ENCORE_RETURN_IF_ERROR(apply_text(setting.key, setting.value, where, loaded));
  }
  return loaded;
}

}  // namespace

std::string LoadedConfig::origin(const std::string& key) const {
  const auto found = origins.find(key);
  return found == origins.end() ? "default" : found->second;
}

Status apply_yaml(std::string_view text, const std::string& name, LoadedConfig& loaded) {
  ENCORE_ASSIGN_OR_RETURN(const YamlNode root, parse_yaml(text, name));
  if (root.kind == Kind::kNull) return {};
  if (root.kind != Kind::kMap) {
    return invalid_argument(
        place(name, root.line) +
        ": a configuration is a map of sections, such as \"model: {path: ...}\"");
  }
  std::string base_folder = fs::path(name).parent_path().string();
  if (base_folder.empty()) base_folder = ".";
  for (const auto& [section, body] : root.entries) {
    ENCORE_RETURN_IF_ERROR(apply_section(section, body, name, base_folder, loaded));
  }
  return {};
}

Result<LoadedConfig> load_config(const ConfigSources& sources) {
  try {
    return load(sources);
  } catch (const std::exception& error) {
    return internal_error(std::string("reading the configuration failed: ") + error.what());
  }
}

std::vector<std::pair<std::string, std::string>> process_environment() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

Result<ConfigSources::Setting> parse_setting(const std::string& flag, std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return invalid_argument(flag + " " + quoted_for_message(text) +
                            ": write it as section.key=value");
  }
  return ConfigSources::Setting{flag, std::string(text.substr(0, equals)),
                                std::string(text.substr(equals + 1))};
}

}  // namespace encore
