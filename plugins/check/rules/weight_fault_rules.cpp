// Rules E on what goes wrong while weights are read.
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "error_rule_bodies.h"
#include "plugin_session.h"
#include "random_model.h"

namespace encore::check {
namespace {

constexpr std::string_view kReadFault = "the file has shrunk under the reader";

RandomModel sound_model(bool mappable = true) {
  ModelOverrides overrides;
  overrides.mappable = mappable;
  return random_model(Family::kLlama, 7, DType::kF32, overrides);
}

// The weights of a model with something wrong about one of them.
class FaultyWeights final : public WeightSource {
 public:
  explicit FaultyWeights(std::shared_ptr<MemoryWeights> sound)
      : sound_(std::move(sound)), infos_(sound_->weights().begin(), sound_->weights().end()) {
    for (size_t i = 0; i < infos_.size(); ++i) source_.push_back(i);
  }

  void remove(std::string_view name) {
    const size_t index = index_of(name);
    infos_.erase(infos_.begin() + static_cast<std::ptrdiff_t>(index));
    source_.erase(source_.begin() + static_cast<std::ptrdiff_t>(index));
  }
  // Says that the weight has half of its rows, which then are all that can be read.
  void halve(std::string_view name) {
    WeightInfo& info = infos_[index_of(name)];
    info.shape[0] /= 2;
    info.bytes /= 2;
  }
  void fail_reads_from(size_t count) { sound_reads_ = static_cast<int64_t>(count); }

  std::span<const WeightInfo> weights() const override { return infos_; }
  Status read(size_t index, int64_t offset, std::span<std::byte> destination) const override {
    if (sound_reads_ >= 0 && reads_++ >= sound_reads_) return data_loss(std::string(kReadFault));
    return sound_->read(source_[index], offset, destination);
  }
  const std::byte* map(size_t index) const override { return sound_->map(source_[index]); }
  void release(size_t index) const override { static_cast<void>(index); }

 private:
  size_t index_of(std::string_view name) const {
    return static_cast<size_t>(find_weight(*this, name));
  }

  std::shared_ptr<MemoryWeights> sound_;
  std::vector<WeightInfo> infos_;
  std::vector<size_t> source_;  // index in the sound weights
  int64_t sound_reads_ = -1;    // below 0: all
  mutable std::atomic<int64_t> reads_ = 0;
};

// Loads the way a host does: checks first.
Status try_to_load(PluginSession& session, const ModelSpec& spec, const WeightSource& weights) {
  return session.load(spec, weights).status();
}

// What follows a refused load: a sound model still loads.
Outcome sound_model_loads(PluginSession& session) {
  const RandomModel model = sound_model();
  const Status status = try_to_load(session, model.spec, *model.weights);
  if (status.ok()) return pass();
  return fail("after a load that failed, a sound model does not load: " + status.to_string());
}

constexpr std::string_view kMatrices[] = {"embed.weight",         "layers.0.q.weight",
                                          "layers.1.k.weight",    "layers.0.o.weight",
                                          "layers.0.gate.weight", "layers.1.down.weight"};
constexpr std::string_view kVectors[] = {"layers.0.attention_norm.weight",
                                         "layers.1.mlp_norm.weight", "norm.weight"};

template <typename Spoil>
Outcome each_weight_refused(const CheckContext& context, const char* what, Spoil spoil) {
  PluginSession session(context);
  if (!session.ok()) return session.outcome();
  if (const Outcome sound = sound_model_loads(session); sound.verdict != Verdict::kPass) {
    return skip("a small model does not load");
  }
  std::vector<std::string_view> names(std::begin(kMatrices), std::end(kMatrices));
  names.insert(names.end(), std::begin(kVectors), std::end(kVectors));
  for (const std::string_view name : names) {
    const RandomModel model = sound_model();
    if (find_weight(*model.weights, name) < 0) continue;
    FaultyWeights weights(model.weights);
    spoil(weights, name);
    if (try_to_load(session, model.spec, weights).ok()) {
      return fail("a model whose weight '" + std::string(name) + "' " + what + " was loaded");
    }
  }
  return sound_model_loads(session);
}

}  // namespace

Outcome missing_weight_is_refused(const CheckContext& context) {
  return each_weight_refused(
      context, "is missing",
      [](FaultyWeights& weights, std::string_view name) { weights.remove(name); });
}

Outcome misshaped_weight_is_refused(const CheckContext& context) {
  return each_weight_refused(
      context, "has half of the rows that the model needs",
      [](FaultyWeights& weights, std::string_view name) { weights.halve(name); });
}

Outcome load_is_cancelled(const CheckContext& context) {
  PluginSession session(context);
  if (!session.ok()) return session.outcome();
  const RandomModel model = sound_model();
  int64_t calls = 0;
  int64_t total_bytes = 0;
  const auto load = [&](bool go_on) {
    LoadOptions options;
    options.progress = [&calls, &total_bytes, go_on](int64_t done, int64_t total) {
      ++calls;
      total_bytes = total;
      return go_on && done <= total;
    };
    return session.backend().load_model(session.device(), model.spec, *model.weights, options);
  };
  if (const auto loaded = load(true); !loaded.ok()) return outcome_of(loaded.status());
  if (calls == 0 || total_bytes <= 0) {
    return fail(
        "the progress function was never called with a number of bytes, so nobody can see "
        "or stop a load");
  }
  const auto cancelled = load(false);
  if (cancelled.ok()) return fail("the progress function asked to stop, and the model was loaded");
  if (cancelled.status().code() != StatusCode::kCancelled) {
    return fail("the progress function asked to stop, and the load failed with another code: " +
                cancelled.status().to_string());
  }
  return sound_model_loads(session);
}

Outcome unreadable_weight_fails_the_load(const CheckContext& context) {
  PluginSession session(context);
  if (!session.ok()) return session.outcome();
  for (const size_t sound_reads : {size_t{0}, size_t{3}}) {
    const RandomModel model = sound_model(/*mappable=*/false);
    FaultyWeights weights(model.weights);
    weights.fail_reads_from(sound_reads);
    const Status status = try_to_load(session, model.spec, weights);
    if (status.code() == StatusCode::kUnimplemented) return outcome_of(status);
    const std::string when = "read number " + std::to_string(sound_reads + 1) + " failed";
    if (status.ok()) return fail(when + ", and the model was loaded");
    if (status.code() != StatusCode::kDataLoss ||
        status.message().find(kReadFault) == std::string::npos) {
      return fail(when + " with data_loss, and the load with: " + status.to_string() +
                  "; hand on the code and the message that the host gave");
    }
  }
  return sound_model_loads(session);
}

}  // namespace encore::check
