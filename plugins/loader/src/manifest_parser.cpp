// The text of a manifest: parse_manifest() and what names may be.
#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <span>
#include <utility>

#include "config/suggest.h"
#include "config/yaml_tree.h"
#include "encore/loader/manifest.h"
#include "encore/sdk/abi_text.h"
#include "manifest_error.h"

namespace encore {
namespace {

namespace fs = std::filesystem;
using Kind = YamlNode::Kind;

constexpr std::array<std::string_view, 9> kKeys = {
    "manifest", "name",     "vendor",         "version",    "abi",
    "library",  "variants", "variant_option", "conformance"};
constexpr std::array<std::string_view, 3> kVariantKeys = {"name", "library", "requires"};
constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyz0123456789._-";
constexpr std::string_view kFeatureCharacters = "abcdefghijklmnopqrstuvwxyz0123456789_";
constexpr size_t kMaxName = 64;

bool is_word(std::string_view text, std::string_view characters) {
  return !text.empty() && text.size() <= kMaxName &&
         text.find_first_not_of(characters) == std::string_view::npos;
}

// Text that may go to a terminal and into JSON as it is.
bool is_printable(std::string_view text) {
  const bool control = std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
  });
  return !control && sdk::valid_utf8(text) == text;
}

std::string or_nearest(std::string_view word, std::span<const std::string_view> known) {
  const std::vector<std::string> words(known.begin(), known.end());
  const std::string near = nearest(word, words);
  if (!near.empty()) return "did you mean \"" + near + "\"?";
  std::string list;
  for (const std::string& each : words) list.append(list.empty() ? "" : ", ").append(each);
  return "known: " + list;
}

// Turns the tree into a Manifest. The first mistake ends it and is kept in `failure`.
class Reader {
 public:
  explicit Reader(const std::string& path) { manifest_.path = path; }

  // False if `failure()` says what is wrong.
  bool read(const YamlNode& root) {
    if (root.kind != Kind::kMap) return wrong(root.line, "a manifest is a map of keys");
    // The version first: a later one may have keys that are unknown here.
    return read_version(root) && check_keys(root, kKeys, "a manifest") && read_identity(root) &&
           read_abi(root) && read_libraries(root) && read_optional(root);
  }

  Manifest take() { return std::move(manifest_); }
  const LoadFailure& failure() const { return failure_; }

 private:
  bool fail(LoadCode code, int line, const std::string& message) {
    const std::string place = line > 0 ? "line " + std::to_string(line) + ": " : "";
    // What is quoted from the file may have been cut inside a character.
    failure_ = {code, manifest_.path, place + sdk::valid_utf8(message)};
    return false;
  }
  bool wrong(int line, const std::string& message) {
    return fail(LoadCode::kManifestMalformed, line, message);
  }

  bool check_keys(const YamlNode& map, std::span<const std::string_view> known,
                  const std::string& what) {
    for (const auto& [key, value] : map.entries) {
      if (std::find(known.begin(), known.end(), key.text) != known.end()) continue;
      return wrong(key.line, "unknown key " + quoted_for_message(key.text) + " in " + what + "; " +
                                 or_nearest(key.text, known));
    }
    return true;
  }

  static const YamlEntry* entry(const YamlNode& map, std::string_view key) {
    const auto found = std::find_if(map.entries.begin(), map.entries.end(),
                                    [key](const auto& each) { return each.key.text == key; });
    return found == map.entries.end() ? nullptr : &*found;
  }

  // A value of a key that must be there: bounded, printable text.
  bool read_text(const YamlNode& map, std::string_view key, std::string& out) {
    const YamlEntry* found = entry(map, key);
    if (found == nullptr) {
      return wrong(map.line, "the key \"" + std::string(key) + "\" is missing");
    }
    return text_of(found->value, key, out);
  }

  bool text_of(const YamlNode& node, std::string_view key, std::string& out) {
    const std::string name(key);
    if (node.kind != Kind::kScalar || node.text.empty()) {
      return wrong(node.line, name + " must be a text");
    }
    if (node.text.size() > kMaxManifestText) {
      return wrong(node.line, name + " has " + std::to_string(node.text.size()) +
                                  " bytes; at most " + std::to_string(kMaxManifestText) +
                                  " are allowed");
    }
    if (!is_printable(node.text)) {
      return wrong(node.line, name + " is " + quoted_for_message(sdk::valid_utf8(node.text)) +
                                  "; control characters and broken UTF-8 are not allowed");
    }
    out = node.text;
    return true;
  }

  bool read_version(const YamlNode& root) {
    std::string text;
    if (!read_text(root, "manifest", text)) return false;
    if (text == std::to_string(kManifestVersion)) return true;
    return wrong(entry(root, "manifest")->value.line, "manifest is " + quoted_for_message(text) +
                                                          "; this host reads version " +
                                                          std::to_string(kManifestVersion));
  }

  bool read_identity(const YamlNode& root) {
    if (!read_text(root, "name", manifest_.name) || !read_text(root, "vendor", manifest_.vendor) ||
        !read_text(root, "version", manifest_.version)) {
      return false;
    }
    const int line = entry(root, "name")->value.line;
    if (!is_word(manifest_.name, kNameCharacters)) {
      return wrong(line, "name is " + quoted_for_message(manifest_.name) +
                             "; it must be 1 to 64 of the characters a-z 0-9 . _ -");
    }
    const std::string problem = name_problem(manifest_.name, manifest_.vendor);
    return problem.empty() || fail(LoadCode::kNameForeign, line, problem);
  }

  bool read_abi(const YamlNode& root) {
    std::string text;
    if (!read_text(root, "abi", text)) return false;
    const size_t dot = text.find('.');
    const bool numbers = dot != std::string::npos &&
                         number(std::string_view(text).substr(0, dot), manifest_.abi_major) &&
                         number(std::string_view(text).substr(dot + 1), manifest_.abi_minor);
    return numbers || wrong(entry(root, "abi")->value.line,
                            "abi is " + quoted_for_message(text) +
                                R"(; it must be "MAJOR.MINOR", for example "1.1")");
  }

  static bool number(std::string_view text, uint32_t& value) {
    constexpr uint32_t kMax = 65'535;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    return error == std::errc() && rest == end && value <= kMax;
  }

  bool read_libraries(const YamlNode& root) {
    const YamlEntry* library = entry(root, "library");
    const YamlEntry* variants = entry(root, "variants");
    if ((library == nullptr) == (variants == nullptr)) {
      return wrong(root.line, library == nullptr
                                  ? "it names no library; give \"library\" or \"variants\""
                                  : "it has both \"library\" and \"variants\"; give one of them");
    }
    if (library != nullptr) {
      return read_library(library->value, manifest_.variants.emplace_back());
    }
    const YamlNode& list = variants->value;
    if (list.kind != Kind::kList || list.items.empty() ||
        list.items.size() > kMaxManifestVariants) {
      return wrong(variants->key.line, "variants must be a list of 1 to " +
                                           std::to_string(kMaxManifestVariants) +
                                           " maps {name, library, requires}, best first");
    }
    return std::all_of(list.items.begin(), list.items.end(),
                       [this](const YamlNode& item) { return read_variant(item); });
  }

  bool read_variant(const YamlNode& item) {
    if (item.kind != Kind::kMap) {
      return wrong(item.line, "a variant is a map {name, library, requires}");
    }
    if (!check_keys(item, kVariantKeys, "a variant")) return false;
    ManifestVariant variant;
    if (!read_text(item, "name", variant.name)) return false;
    const bool taken = std::any_of(manifest_.variants.begin(), manifest_.variants.end(),
                                   [&](const auto& other) { return other.name == variant.name; });
    if (!is_word(variant.name, kNameCharacters) || variant.name == "auto" || taken) {
      return wrong(item.line, "a variant is named " + quoted_for_message(variant.name) +
                                  "; names are 1 to 64 of the characters a-z 0-9 . _ -, each once, "
                                  "and not \"auto\"");
    }
    const YamlEntry* library = entry(item, "library");
    if (library == nullptr) return wrong(item.line, "the variant's key \"library\" is missing");
    if (!read_library(library->value, variant)) return false;
    const YamlEntry* requirements = entry(item, "requires");
    if (requirements != nullptr && !read_requirements(requirements->value, variant)) return false;
    manifest_.variants.push_back(std::move(variant));
    return true;
  }

  bool read_requirements(const YamlNode& list, ManifestVariant& variant) {
    if (list.kind != Kind::kList || list.items.size() > kMaxManifestFeatures) {
      return wrong(list.line, "requires must be a list of at most " +
                                  std::to_string(kMaxManifestFeatures) +
                                  " features, named as in /proc/cpuinfo");
    }
    for (const YamlNode& item : list.items) {
      if (item.kind != Kind::kScalar || !is_word(item.text, kFeatureCharacters)) {
        return wrong(item.line, "requires holds " + quoted_for_message(item.text) +
                                    "; features are named as in /proc/cpuinfo");
      }
      variant.requirements.push_back(item.text);
    }
    return true;
  }

  bool read_library(const YamlNode& node, ManifestVariant& variant) {
    if (!text_of(node, "library", variant.library)) return false;
    const fs::path path(variant.library);
    const bool climbs =
        std::any_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
    if (path.is_absolute() || climbs) {
      return fail(LoadCode::kManifestOutside, node.line,
                  "library is " + quoted_for_message(variant.library) +
                      "; it must be a file name, or a path below the manifest's folder");
    }
    if (path.filename().empty() || path.filename() == ".") {
      return wrong(node.line,
                   "library is " + quoted_for_message(variant.library) + "; it must name a file");
    }
    return true;
  }

  bool read_optional(const YamlNode& root) {
    if (const YamlEntry* claim = entry(root, "conformance")) {
      if (!text_of(claim->value, "conformance", manifest_.conformance)) return false;
    }
    const YamlEntry* option = entry(root, "variant_option");
    if (option == nullptr) return true;
    if (!text_of(option->value, "variant_option", manifest_.variant_option)) return false;
    if (entry(root, "variants") == nullptr) {
      return wrong(option->key.line, "variant_option needs \"variants\" to choose from");
    }
    return true;
  }

  Manifest manifest_;
  LoadFailure failure_;
};

}  // namespace

std::string name_problem(std::string_view name, std::string_view vendor) {
  constexpr std::string_view kOwn = "Encore";
  const bool own = vendor == kOwn || vendor.starts_with("Encore ");
  const size_t dot = name.find('.');
  const std::string quoted = quoted_for_message(name);
  if (own) {
    if (dot == std::string_view::npos) return {};
    return "name is " + quoted + "; a backend of Encore's own has no dot in its name";
  }
  if (dot == std::string_view::npos) {
    return "name is " + quoted + " and the vendor " + quoted_for_message(vendor) +
           "; only Encore's own backends have bare names, others are named vendor.name";
  }
  const std::string_view prefix = name.substr(0, dot);
  if (prefix.empty() || dot + 1 == name.size() || prefix == "encore") {
    return "name is " + quoted +
           "; before and after the dot there must be a word, and the first may not be encore";
  }
  return {};
}

Result<Manifest> parse_manifest(std::string_view text, const std::string& path,
                                LoadFailure* failure) {
  if (text.size() > kMaxManifestBytes) {
    return manifest_error({LoadCode::kManifestMalformed, path,
                           "it is larger than " + std::to_string(kMaxManifestBytes) + " bytes"},
                          failure);
  }
  const Result<YamlNode> root = parse_yaml(text, "manifest");
  if (!root.ok()) {
    return manifest_error(
        {LoadCode::kManifestMalformed, path, sdk::valid_utf8(root.status().message())}, failure);
  }
  Reader reader(path);
  if (!reader.read(*root)) return manifest_error(reader.failure(), failure);
  return reader.take();
}

}  // namespace encore
