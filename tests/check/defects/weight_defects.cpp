// Defects of weights that do not fit the model.
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "defect_families.h"

namespace encore::defects {
namespace {

// The weights of a model with one said to be another than it is. Borrows `source`.
class PretendedWeights final : public WeightSource {
 public:
  PretendedWeights(const WeightSource& source, std::vector<WeightInfo> infos)
      : source_(source), infos_(std::move(infos)) {}

  std::span<const WeightInfo> weights() const override { return infos_; }
  Status read(size_t index, int64_t offset, std::span<std::byte> destination) const override {
    return source_.read(origin_of(index), offset, destination);
  }
  const std::byte* map(size_t index) const override { return source_.map(origin_of(index)); }
  void release(size_t index) const override { static_cast<void>(index); }

 private:
  // A weight that the source lacks is the first one that is large enough.
  size_t origin_of(size_t index) const {
    if (index < source_.weights().size()) return index;
    size_t origin = 0;
    while (source_.weights()[origin].bytes < infos_[index].bytes) ++origin;
    return origin;
  }

  const WeightSource& source_;
  std::vector<WeightInfo> infos_;
};

// Checks and loads a model as though its weights were what `Pretend` says:
// void(const ModelSpec&, std::vector<WeightInfo>&).
template <auto kPretend>
class PretendsWeights final : public Defect {
 public:
  Status check_model(const Backend& backend, int32_t device, const ModelSpec& spec,
                     std::span<const WeightInfo> weights) override {
    return Defect::check_model(backend, device, spec, pretended(spec, weights));
  }
  Result<std::unique_ptr<Model>> load_model(Backend& backend, int32_t device, const ModelSpec& spec,
                                            const WeightSource& weights,
                                            const LoadOptions& options) override {
    // Models borrow it.
    const WeightSource& source = sources_.emplace_back(weights, pretended(spec, weights.weights()));
    return Defect::load_model(backend, device, spec, source, options);
  }

 private:
  static std::vector<WeightInfo> pretended(const ModelSpec& spec,
                                           std::span<const WeightInfo> weights) {
    std::vector<WeightInfo> infos(weights.begin(), weights.end());
    kPretend(spec, infos);
    return infos;
  }

  std::deque<PretendedWeights> sources_;
};

WeightInfo* find_info(std::vector<WeightInfo>& infos, std::string_view name) {
  for (WeightInfo& info : infos) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

// A missing last norm is whatever lies there.
void invent_norm(const ModelSpec& spec, std::vector<WeightInfo>& infos) {
  static_cast<void>(spec);
  if (find_info(infos, "norm.weight") != nullptr) return;
  const WeightInfo* const other = find_info(infos, "layers.0.mlp_norm.weight");
  if (other == nullptr) return;
  WeightInfo info = *other;
  info.name = "norm.weight";
  infos.push_back(std::move(info));
}

// The number of a matrix's rows is taken from the model, not from the weight.
void assume_rows(const ModelSpec& spec, std::vector<WeightInfo>& infos) {
  WeightInfo* const gate = find_info(infos, "layers.0.gate.weight");
  if (gate == nullptr || gate->shape.empty() || gate->shape[0] == 0) return;
  gate->bytes = gate->bytes / gate->shape[0] * spec.intermediate_size;
  gate->shape[0] = spec.intermediate_size;
}

}  // namespace

std::span<const DefectEntry> weight_defects() {
  static const DefectEntry entries[] = {
      defect<PretendsWeights<invent_norm>>("missing_norm_invented"),
      defect<PretendsWeights<assume_rows>>("rows_assumed"),
  };
  return entries;
}

}  // namespace encore::defects
