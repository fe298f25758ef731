#include "tuning_cache.h"

#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>

namespace encore::gpu {
namespace {

using nlohmann::json;

constexpr int32_t kFormat = 1;
constexpr uintmax_t kMaxFileBytes = 16 << 20;
constexpr size_t kMaxAlgorithmBytes = 1024;

auto without_m(const ProductShape& shape) {
  return std::tuple(shape.n, shape.k, shape.output, shape.accumulate, shape.bias);
}

// A file name that a person can read: letters, digits, dots and single dashes.
std::string file_name(const std::string& identity) {
  std::string name = "products-";
  for (const char c : identity) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (plain || c == '.') {
      name += c;
    } else if (name.back() != '-') {
      name += '-';
    }
  }
  return name + ".json";
}

std::string to_hex(const AlgorithmBytes& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<size_t>(byte >> 4)];
    text += kDigits[std::to_integer<size_t>(byte & std::byte{15})];
  }
  return text;
}

std::optional<AlgorithmBytes> from_hex(const std::string& text) {
  if (text.empty() || text.size() % 2 != 0 || text.size() > 2 * kMaxAlgorithmBytes) return {};
  AlgorithmBytes bytes;
  bytes.reserve(text.size() / 2);
  for (size_t i = 0; i < text.size(); i += 2) {
    uint8_t value = 0;
    const char* end = text.data() + i + 2;
    if (std::from_chars(text.data() + i, end, value, 16).ptr != end) return {};
    bytes.push_back(std::byte{value});
  }
  return bytes;
}

template <typename T>
std::optional<T> value_of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return {};
  if constexpr (std::is_same_v<T, bool>) {
    if (found->is_boolean()) return found->template get<bool>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (found->is_string()) return found->template get<std::string>();
  } else {
    if (!found->is_number_integer()) return {};
    const auto value = found->template get<int64_t>();
    if (value >= 1 && value <= std::numeric_limits<T>::max()) return static_cast<T>(value);
  }
  return {};
}

std::optional<std::pair<ProductShape, AlgorithmBytes>> product_of(const json& object) {
  if (!object.is_object()) return {};
  const auto m = value_of<int32_t>(object, "m");
  const auto n = value_of<int32_t>(object, "n");
  const auto k = value_of<int32_t>(object, "k");
  const auto output = value_of<std::string>(object, "output");
  const auto accumulate = value_of<bool>(object, "accumulate");
  const auto bias = value_of<bool>(object, "bias");
  const auto hex = value_of<std::string>(object, "algorithm");
  if (!m || !n || !k || !output || !accumulate || !bias || !hex) return {};
  if (*output != "bf16" && *output != "f32") return {};
  std::optional<AlgorithmBytes> algorithm = from_hex(*hex);
  if (!algorithm) return {};
  const Element element = *output == "f32" ? Element::kF32 : Element::kBF16;
  return std::pair(ProductShape{*m, *n, *k, element, *accumulate, *bias}, *std::move(algorithm));
}

}  // namespace

std::filesystem::path default_tuning_folder() {
  // Relative paths there are to be ignored (XDG base directory specification, section 2).
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::filesystem::path(cache) / "encore";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::filesystem::path(home) / ".cache/encore";
  return {};
}

bool TuningCache::Order::operator()(const ProductShape& a, const ProductShape& b) const {
  return std::tuple(without_m(a), a.m) < std::tuple(without_m(b), b.m);
}

TuningCache::TuningCache(const std::filesystem::path& folder, std::string identity)
    : identity_(std::move(identity)) {
  if (!folder.empty()) path_ = folder / file_name(identity_);
}

Status TuningCache::damaged(const std::string& why) const {
  return data_loss(path_.string() + ": " + why + "; it is ignored and will be replaced");
}

Status TuningCache::load() {
  std::error_code error;
  if (path_.empty() || !std::filesystem::exists(path_, error)) return {};
  const uintmax_t bytes = std::filesystem::file_size(path_, error);
  if (error) return damaged(error.message());
  if (bytes > kMaxFileBytes) {
    return damaged("it has " + std::to_string(bytes) + " bytes; at most " +
                   std::to_string(kMaxFileBytes) + " are read");
  }
  std::ifstream file(path_, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) return damaged("it cannot be read");
  ENCORE_ASSIGN_OR_RETURN(choices_, parse(text));
  return {};
}

Result<TuningCache::Choices> TuningCache::parse(std::string_view text) const {
  const json file = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!file.is_object()) return damaged("it is not a JSON object");
  const auto format = value_of<int32_t>(file, "format");
  if (format != kFormat) {
    return damaged("its format is not " + std::to_string(kFormat));
  }
  if (value_of<std::string>(file, "identity") != identity_) {
    return damaged("it is not for " + identity_);
  }
  const auto products = file.find("products");
  if (products == file.end() || !products->is_array()) return damaged("it lists no products");
  Choices choices;
  for (const json& entry : *products) {
    auto product = product_of(entry);
    if (!product) return damaged("product " + std::to_string(choices.size()) + " is malformed");
    if (!choices.insert(*std::move(product)).second) return damaged("a product stands twice");
  }
  return choices;
}

Status TuningCache::save() const {
  if (path_.empty()) return {};
  json products = json::array();
  for (const auto& [shape, algorithm] : choices_) {
    products.push_back({{"m", shape.m},
                        {"n", shape.n},
                        {"k", shape.k},
                        {"output", shape.output == Element::kF32 ? "f32" : "bf16"},
                        {"accumulate", shape.accumulate},
                        {"bias", shape.bias},
                        {"algorithm", to_hex(algorithm)}});
  }
  const json file = {
      {"format", kFormat}, {"identity", identity_}, {"products", std::move(products)}};
  const auto failed = [&](const std::string& why) {
    return unavailable("cannot keep tuning results in " + path_.string() + ": " + why);
  };
  std::error_code error;
  std::filesystem::create_directories(path_.parent_path(), error);
  if (error) return failed(error.message());
  // Complete under another name first: whoever reads meanwhile finds the old file or the new one.
  std::filesystem::path draft = path_;
  draft += '.';
  draft += std::to_string(::getpid());
  {
    std::ofstream out(draft, std::ios::binary | std::ios::trunc);
    out << file.dump(1, ' ', false, json::error_handler_t::replace) << '\n';
    out.close();
    if (!out) {
      std::filesystem::remove(draft, error);
      return failed("the file cannot be written");
    }
  }
  std::filesystem::rename(draft, path_, error);
  if (!error) return {};
  const std::string why = error.message();
  std::filesystem::remove(draft, error);
  return failed(why);
}

void TuningCache::put(const ProductShape& shape, AlgorithmBytes algorithm) {
  choices_.insert_or_assign(shape, std::move(algorithm));
}

const AlgorithmBytes* TuningCache::find(const ProductShape& shape) const {
  const auto found = choices_.find(shape);
  return found == choices_.end() ? nullptr : &found->second;
}

const AlgorithmBytes* TuningCache::nearest(const ProductShape& shape) const {
  auto found = choices_.lower_bound(shape);
  if (found != choices_.end() && without_m(found->first) == without_m(shape)) {
    return &found->second;
  }
  if (found == choices_.begin()) return nullptr;
  --found;
  return without_m(found->first) == without_m(shape) ? &found->second : nullptr;
}

}  // namespace encore::gpu
