#include "config/field.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <utility>

#include "config/suggest.h"

namespace encore {
namespace {

using Kind = YamlNode::Kind;

struct PrefillName {
  PrefillMode mode;
  std::string_view name;
};
constexpr std::array<PrefillName, 3> kPrefillNames = {{
    {PrefillMode::kOff, "off"},
    {PrefillMode::kFull, "full"},
    {PrefillMode::kBreakable, "breakable"},
}};

// The node as a short text for messages.
std::string written(const YamlNode& node) {
  switch (node.kind) {
    case Kind::kNull:
      return "empty";
    case Kind::kList:
      return "a list";
    case Kind::kMap:
      return "a map";
    case Kind::kScalar:
      break;
  }
  return (node.quoted ? "the text " : "") + quoted_for_message(node.text);
}

std::string number_text(double value) {
  if (std::floor(value) == value && std::fabs(value) < 1e16) {
    return std::to_string(static_cast<int64_t>(value));
  }
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

std::string range_text(const KeyInfo& key) {
  if (key.minimum > key.maximum) return "";
  return " from " + number_text(key.minimum) + " to " + number_text(key.maximum) +
         (key.or_minus_one ? ", or -1" : "");
}

bool in_range(const KeyInfo& key, double value) {
  if (key.or_minus_one && value == -1.0) return true;
  return key.minimum > key.maximum || (value >= key.minimum && value <= key.maximum);
}

// False unless the whole text is one number that fits `T`.
template <typename T>
bool parse_number(std::string_view text, T& value) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end;
}

// A plain scalar within the key's range, or false.
template <typename T>
bool read_number(const KeyInfo& key, const YamlNode& node, T& value) {
  return node.kind == Kind::kScalar && !node.quoted && parse_number(node.text, value) &&
         std::isfinite(static_cast<double>(value)) && in_range(key, static_cast<double>(value));
}

std::string resolve(const std::string& path, const ValueSource& source) {
  namespace fs = std::filesystem;
  if (path.empty() || source.base_folder.empty() || fs::path(path).is_absolute()) return path;
  return (fs::path(source.base_folder) / path).lexically_normal().string();
}

class Assigner {
 public:
  Assigner(const KeyInfo& key, const YamlNode& node, const ValueSource& source)
      : key_(key), node_(node), source_(source) {}

  Status operator()(bool* field) const {
    const bool plain = node_.kind == Kind::kScalar && !node_.quoted;
    if (!plain || (node_.text != "true" && node_.text != "false")) return wrong(node_);
    *field = node_.text == "true";
    return {};
  }
  Status operator()(int32_t* field) const { return number(field); }
  Status operator()(int64_t* field) const { return number(field); }
  Status operator()(float* field) const { return number(field); }

  Status operator()(std::string* field) const {
    if (node_.kind != Kind::kScalar) return wrong(node_);
    const bool listed = key_.choices.empty() || is_choice(node_.text);
    if (!listed) return wrong(node_);
    *field = key_.is_path ? resolve(node_.text, source_) : node_.text;
    return {};
  }
  Status operator()(DType* field) const {
    if (node_.kind != Kind::kScalar || !is_choice(node_.text)) return wrong(node_);
    *field = dtype_from_name(node_.text);  // "auto" is no dtype: kInvalid
    return {};
  }
  Status operator()(PrefillMode* field) const {
    for (const PrefillName& entry : kPrefillNames) {
      if (node_.kind == Kind::kScalar && node_.text == entry.name) {
        *field = entry.mode;
        return {};
      }
    }
    return wrong(node_);
  }

  Status operator()(std::vector<int32_t>* field) const {
    std::vector<int32_t> values;
    for (const YamlNode& item : number_items()) {
      int32_t value = 0;
      if (!read_number(key_, item, value)) return wrong(item);
      values.push_back(value);
    }
    if (node_.kind == Kind::kMap) return wrong(node_);
    *field = std::move(values);
    return {};
  }
  Status operator()(std::vector<std::string>* field) const {
    if (node_.kind == Kind::kMap || node_.kind == Kind::kNull) return wrong(node_);
    std::vector<std::string> values;
    for (const YamlNode& item : items()) {
      if (item.kind != Kind::kScalar) return wrong(item);
      values.push_back(key_.is_path ? resolve(item.text, source_) : item.text);
    }
    *field = std::move(values);
    return {};
  }
  Status operator()(std::vector<PluginLoad>* field) const {
    if (node_.kind == Kind::kNull) return wrong(node_);
    std::vector<PluginLoad> values;
    for (const YamlNode& item : items()) {
      ENCORE_ASSIGN_OR_RETURN(PluginLoad load, plugin(item));
      values.push_back(std::move(load));
    }
    *field = std::move(values);
    return {};
  }

  Status operator()(OptionValues* field) const {
    if (node_.kind == Kind::kNull) return {};
    if (node_.kind != Kind::kMap) return wrong(node_);
    for (const auto& [name, value] : node_.entries) {
      if (value.kind != Kind::kScalar) {
        return error(value, std::string(key_.name) + "." + name.text + " is " + written(value) +
                                "; it must be a single value");
      }
    }
    for (const auto& [name, value] : node_.entries) {
      const auto same = [&wanted = name.text](const auto& option) {
        return option.first == wanted;
      };
      const auto found = std::find_if(field->begin(), field->end(), same);
      if (found == field->end()) {
        field->emplace_back(name.text, value.text);
      } else {
        found->second = value.text;
      }
    }
    return {};
  }

 private:
  // The node's own line if it is in a file, which may be below its key's.
  Status error(const YamlNode& node, const std::string& message) const {
    std::string where = source_.where;
    const size_t colon = where.rfind(':');
    if (node.line > 0 && colon != std::string::npos) {
      where.replace(colon + 1, std::string::npos, std::to_string(node.line));
    }
    return invalid_argument(where + ": " + message);
  }
  Status wrong(const YamlNode& node) const {
    return error(node, std::string(key_.name) + " is " + written(node) + "; it must be " +
                           describe_limits(key_));
  }

  template <typename T>
  Status number(T* field) const {
    T value{};
    if (!read_number(key_, node_, value)) return wrong(node_);
    *field = value;
    return {};
  }

  bool is_choice(std::string_view text) const {
    return std::find(key_.choices.begin(), key_.choices.end(), text) != key_.choices.end();
  }

  // A list's items, or the single value as a list of one.
  std::vector<YamlNode> items() const {
    if (node_.kind == Kind::kList) return node_.items;
    return {node_};
  }
  // The same, and "1,2,4" from the command line or the environment as three.
  std::vector<YamlNode> number_items() const {
    if (node_.kind != Kind::kScalar || node_.quoted) return items();
    std::vector<YamlNode> parts;
    size_t start = 0;
    for (size_t comma = 0; comma != std::string::npos; start = comma + 1) {
      comma = node_.text.find(',', start);
      YamlNode part = node_;
      part.text = node_.text.substr(start, comma == std::string::npos ? comma : comma - start);
      parts.push_back(std::move(part));
    }
    return parts;
  }

  Result<PluginLoad> plugin(const YamlNode& item) const {
    PluginLoad load;
    if (item.kind == Kind::kScalar) {
      load.path = resolve(item.text, source_);
      return load;
    }
    if (item.kind != Kind::kMap) return wrong(item);
    for (const auto& [name, value] : item.entries) {
      ENCORE_RETURN_IF_ERROR(plugin_key(name, value, load));
    }
    if (load.path.empty())
      return error(item, std::string(key_.name) + " has an entry without a path");
    return load;
  }

  // One key of an entry of plugins.load.
  Status plugin_key(const YamlNode& name, const YamlNode& value, PluginLoad& load) const {
    const std::array<std::string, 3> known = {"path", "optional", "sha256"};
    const bool scalar = value.kind == Kind::kScalar;
    const auto must_be = [&](const char* what) {
      return error(value, std::string(key_.name) + ": " + name.text + " is " + written(value) +
                              "; it must be " + what);
    };
    if (name.text == "path") {
      if (!scalar) return must_be("a path");
      load.path = resolve(value.text, source_);
    } else if (name.text == "optional") {
      if (!scalar || (value.text != "true" && value.text != "false")) {
        return must_be("true or false");
      }
      load.optional = value.text == "true";
    } else if (name.text == "sha256") {
      if (!scalar || !is_sha256(value.text)) return must_be("64 digits 0-9 a-f");
      load.sha256 = value.text;
    } else {
      const std::string near = nearest(name.text, known);
      return error(name, "unknown key " + quoted_for_message(name.text) + " in " +
                             std::string(key_.name) +
                             (near.empty() ? "; known: path, optional, sha256"
                                           : "; did you mean \"" + near + "\"?"));
    }
    return {};
  }

  static bool is_sha256(std::string_view text) {
    return text.size() == 64 &&
           text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  }

  const KeyInfo& key_;
  const YamlNode& node_;
  const ValueSource& source_;
};

std::string quote(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
  }
  return quoted + '"';
}

struct Shower {
  std::string operator()(const bool* field) const { return *field ? "true" : "false"; }
  std::string operator()(const int32_t* field) const { return std::to_string(*field); }
  std::string operator()(const int64_t* field) const { return std::to_string(*field); }
  std::string operator()(const float* field) const {
    std::array<char, 32> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), *field).ptr;
    return {buffer.data(), end};
  }
  std::string operator()(const std::string* field) const {
    return field->empty() ? "\"\"" : *field;
  }
  std::string operator()(const DType* field) const {
    return *field == DType::kInvalid ? "auto" : std::string(dtype_name(*field));
  }
  std::string operator()(const PrefillMode* field) const {
    for (const PrefillName& entry : kPrefillNames) {
      if (entry.mode == *field) return std::string(entry.name);
    }
    return "unknown";
  }
  std::string operator()(const std::vector<int32_t>* field) const {
    return joined(
        *field, [](int32_t value) { return std::to_string(value); }, '[', ']');
  }
  std::string operator()(const std::vector<std::string>* field) const {
    return joined(*field, quote, '[', ']');
  }
  std::string operator()(const std::vector<PluginLoad>* field) const {
    const auto one = [](const PluginLoad& load) {
      return "{path: " + load.path + (load.optional ? ", optional: true" : "") +
             (load.sha256.empty() ? "" : ", sha256: " + load.sha256) + "}";
    };
    return joined(*field, one, '[', ']');
  }
  std::string operator()(const OptionValues* field) const {
    const auto one = [](const auto& option) { return option.first + ": " + option.second; };
    return joined(*field, one, '{', '}');
  }

  template <typename T, typename F>
  static std::string joined(const std::vector<T>& values, const F& text, char open, char close) {
    std::string out(1, open);
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out += ", ";
      out += text(values[i]);
    }
    return out + close;
  }
};

struct Describer {
  const KeyInfo& key;

  std::string operator()(const bool*) const { return "true or false"; }
  std::string operator()(const int32_t*) const { return "a whole number" + range_text(key); }
  std::string operator()(const int64_t*) const { return "a whole number" + range_text(key); }
  std::string operator()(const float*) const { return "a number" + range_text(key); }
  std::string operator()(const std::string*) const {
    if (!key.choices.empty()) return choices();
    return key.is_path ? "a path" : "text";
  }
  std::string operator()(const DType*) const { return choices(); }
  std::string operator()(const PrefillMode*) const { return choices(); }
  std::string operator()(const std::vector<int32_t>*) const {
    return "a list of whole numbers, each" + range_text(key);
  }
  std::string operator()(const std::vector<std::string>*) const {
    return key.is_path ? "a list of paths" : "a list of texts";
  }
  std::string operator()(const std::vector<PluginLoad>*) const {
    return "a list of paths or of {path, optional, sha256}";
  }
  std::string operator()(const OptionValues*) const { return "a map of options"; }

  std::string choices() const {
    std::string text = "one of ";
    for (size_t i = 0; i < key.choices.size(); ++i) {
      if (i > 0) text += ", ";
      text += key.choices[i];
    }
    return text;
  }
};

}  // namespace

Status assign(const KeyInfo& key, const YamlNode& node, const ValueSource& source, Config& config) {
  return std::visit(Assigner(key, node, source), key.field(config));
}

std::string show(const KeyInfo& key, const Config& config) {
  // Accessors take a mutable Config because assign() needs one; a copy keeps this one const.
  Config copy = config;
  const FieldRef field = key.field(copy);
  if (key.is_secret) {
    if (auto* const* secrets = std::get_if<std::vector<std::string>*>(&field)) {
      for (std::string& secret : **secrets) secret = "***";
    }
  }
  return std::visit(Shower(), field);
}

std::string describe_limits(const KeyInfo& key) {
  Config defaults;
  return std::visit(Describer{key}, key.field(defaults));
}

}  // namespace encore
