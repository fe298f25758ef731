#include "tuning_cache.h"

#include <charconv>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "hex.h"
#include "tuning_entries.h"

namespace encore::gpu {
namespace {

using nlohmann::json;

constexpr size_t kMaxAlgorithmBytes = 1024;

auto without_m(const ProductShape& shape) {
  return std::tuple(shape.n, shape.k, shape.output, shape.accumulate, shape.bias);
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

json json_of(const std::pair<const ProductShape, AlgorithmBytes>& product) {
  const auto& [shape, algorithm] = product;
  return {{"m", shape.m},
          {"n", shape.n},
          {"k", shape.k},
          {"output", shape.output == Element::kF32 ? "f32" : "bf16"},
          {"accumulate", shape.accumulate},
          {"bias", shape.bias},
          {"algorithm", to_hex(algorithm)}};
}

}  // namespace

bool TuningCache::Order::operator()(const ProductShape& a, const ProductShape& b) const {
  return std::tuple(without_m(a), a.m) < std::tuple(without_m(b), b.m);
}

Status TuningCache::load() {
  return load_entries(file_, "product", product_of, &choices_, &changed_);
}

Status TuningCache::save() {
  return save_entries(file_, "product", product_of, json_of, choices_, &changed_);
}

void TuningCache::put(const ProductShape& shape, AlgorithmBytes algorithm) {
  choices_.insert_or_assign(shape, std::move(algorithm));
  changed_ = true;
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
