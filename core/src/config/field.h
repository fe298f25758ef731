// One configuration value: how its text is checked, stored and shown again.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/yaml_tree.h"
#include "encore/config.h"
#include "encore/status.h"

namespace encore {

// Points at a member of a `Config`; the alternative is the value's type.
using FieldRef = std::variant<bool*, int32_t*, int64_t*, float*, std::string*, DType*, PrefillMode*,
                              std::vector<int32_t>*, std::vector<std::string>*,
                              std::vector<PluginLoad>*, OptionValues*>;

// A key of the configuration. Borrowed texts are literals.
struct KeyInfo {
  std::string_view name;  // "scheduler.max_context"
  FieldRef (*field)(Config&);
  std::string_view help;  // one sentence
  // Of a number, or of each number of a list; no limits if minimum > maximum.
  double minimum = 0.0;
  double maximum = -1.0;
  bool or_minus_one = false;  // -1 is allowed too: not set here
  bool is_path = false;       // a relative path in a file is relative to that file's folder
  bool is_secret = false;     // never shown
  std::span<const std::string_view> choices = {};  // of a string, a dtype or a mode
};

// Where a value was written.
struct ValueSource {
  std::string where;        // "configs/a.yaml:3", "ENCORE_KV_CACHE__DTYPE", "--set kv_cache.dtype"
  std::string base_folder;  // that relative paths start from; empty: the working directory
};

// Checks `node` against `key` and stores it in `config`. Lists are replaced, maps are merged.
// Errors: kInvalidArgument naming source, key, value and limit; `config` is unchanged.
Status assign(const KeyInfo& key, const YamlNode& node, const ValueSource& source, Config& config);

// The value as it may be written in YAML; of a secret, only how many there are.
std::string show(const KeyInfo& key, const Config& config);

// What the value must be: "a whole number from 1 to 4096", "one of off, full, breakable".
std::string describe_limits(const KeyInfo& key);

}  // namespace encore
