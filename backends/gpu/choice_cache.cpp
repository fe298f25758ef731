#include "choice_cache.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "tuning_entries.h"

namespace encore::gpu {
namespace {

using nlohmann::json;

std::optional<std::vector<int32_t>> variants_of(const json& list) {
  if (!list.is_array()) return {};
  std::vector<int32_t> variants;
  for (const json& one : list) {
    if (!one.is_number_integer()) return {};
    const auto variant = one.get<int64_t>();
    if (variant < std::numeric_limits<int32_t>::min() ||
        variant > std::numeric_limits<int32_t>::max()) {
      return {};
    }
    variants.push_back(static_cast<int32_t>(variant));
  }
  return variants;
}

std::optional<std::pair<std::string, std::vector<int32_t>>> choice_of(const json& entry) {
  if (!entry.is_object()) return {};
  const json products = entry.value("products", json());
  auto variants = variants_of(entry.value("variants", json()));
  if (!products.is_string() || !variants) return {};
  return std::pair(products.get<std::string>(), *std::move(variants));
}

json json_of(const std::pair<const std::string, std::vector<int32_t>>& choice) {
  return {{"products", choice.first}, {"variants", choice.second}};
}

}  // namespace

Status ChoiceCache::load() {
  return load_entries(file_, "choice", choice_of, &choices_, &changed_);
}

Status ChoiceCache::save() {
  return save_entries(file_, "choice", choice_of, json_of, choices_, &changed_);
}

void ChoiceCache::put(const std::string& products, std::vector<int32_t> variants) {
  choices_.insert_or_assign(products, std::move(variants));
  changed_ = true;
}

const std::vector<int32_t>* ChoiceCache::find(const std::string& products) const {
  const auto found = choices_.find(products);
  return found == choices_.end() ? nullptr : &found->second;
}

}  // namespace encore::gpu
