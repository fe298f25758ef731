// Defects of how a model is read, run and observed.
#include <algorithm>
#include <deque>
#include <memory>
#include <utility>

#include "altered_weights.h"
#include "defect_families.h"
#include "editing_runner.h"

namespace encore::defects {
namespace {

// Loads what `Alter` makes of the model: void(ModelSpec&, AlteredWeights&).
template <auto kAlter>
class AltersModel final : public Defect {
 public:
  Result<std::unique_ptr<Model>> load_model(Backend& backend, int32_t device, const ModelSpec& spec,
                                            const WeightSource& weights,
                                            const LoadOptions& options) override {
    ModelSpec altered = spec;
    AlteredWeights& source = sources_.emplace_back(weights);  // models borrow it
    kAlter(altered, source);
    return backend.load_model(device, altered, source, options);
  }

 private:
  std::deque<AlteredWeights> sources_;
};

// The first two heads of q come in the wrong order; they share a head of k and v, so one token
// alone does not show it.
void mix_up_heads(ModelSpec& spec, AlteredWeights& weights) {
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    weights.alter("layers." + std::to_string(layer) + ".q.weight",
                  [&](std::vector<std::byte>& bytes) {
                    const auto head = static_cast<std::ptrdiff_t>(bytes.size()) / spec.num_heads;
                    std::swap_ranges(bytes.begin(), bytes.begin() + head, bytes.begin() + head);
                  });
  }
}

void ignore_qkv_bias(ModelSpec& spec, AlteredWeights&) { spec.qkv_bias = false; }

// A tied model gets a head whose rows are one off.
void shift_tied_head(ModelSpec& spec, AlteredWeights& weights) {
  if (!spec.tied_embeddings) return;
  spec.tied_embeddings = false;
  weights.add_copy("head.weight", "embed.weight");
  weights.alter("head.weight", [&](std::vector<std::byte>& bytes) {
    const auto row = static_cast<std::ptrdiff_t>(bytes.size()) / spec.vocab_size;
    std::rotate(bytes.begin(), bytes.begin() + row, bytes.end());
  });
}

void ignore_rope_style(ModelSpec& spec, AlteredWeights&) {
  spec.rope.style = RopeStyle::kHalfSplit;
}

void ignore_rope_scale(ModelSpec& spec, AlteredWeights&) { spec.rope.attention_scale = 1.0F; }

// f16 weights are taken for something else in one matrix.
void misread_f16(ModelSpec& spec, AlteredWeights& weights) {
  const auto index = static_cast<size_t>(find_weight(weights, "embed.weight"));
  if (weights.weights()[index].dtype != DType::kF16) return;
  weights.alter("layers." + std::to_string(spec.num_layers - 1) + ".down.weight",
                [](std::vector<std::byte>& bytes) {
                  std::rotate(bytes.begin(), bytes.begin() + 2, bytes.end());
                });
}

// What cannot be mapped is read from one row further on.
void misread_unmapped(ModelSpec&, AlteredWeights& weights) {
  const int64_t found = find_weight(weights, "layers.0.o.weight");
  if (found < 0) return;  // a rule that leaves it out
  const auto index = static_cast<size_t>(found);
  if (weights.map(index) != nullptr) return;
  const int64_t rows = weights.weights()[index].shape[0];
  weights.alter("layers.0.o.weight", [&](std::vector<std::byte>& bytes) {
    const auto row = static_cast<std::ptrdiff_t>(bytes.size()) / rows;
    std::rotate(bytes.begin(), bytes.begin() + row, bytes.end());
  });
}

// A chunk that follows cached tokens starts one token late: it reads its second token twice.
class ChunkOffByOne : public EditingRunner {
 public:
  using EditingRunner::EditingRunner;

 protected:
  void edit(EditedBatch& batch) override {
    for (size_t i = 0; i < batch.kv_len.size(); ++i) {
      const auto first = static_cast<size_t>(batch.q_start[i]);
      const bool has_prefix = batch.kv_len[i] > batch.count_of(i);
      if (has_prefix && batch.count_of(i) > 1) {
        batch.token_ids[first] = batch.token_ids[first + 1];
      }
    }
  }
};

// In eager steps of chunks of different lengths the first two rows come in the wrong order.
class RowsMixedUp : public EditingRunner {
 public:
  using EditingRunner::EditingRunner;

 protected:
  void finish(const EditedBatch& original, const StepOutput& output) override {
    if (kind() != RunnerKind::kEager || output.tokens.size() < 2) return;
    bool equal = true;
    for (size_t i = 1; i < original.kv_len.size(); ++i) {
      equal &= original.count_of(i) == original.count_of(0);
    }
    if (!equal) swap_rows(output, 0, 1);
  }
};

// Graphs of one kind are wrong for the models that `kFor` picks.
template <RunnerKind kKind, PrefillMode kMode, auto kFor>
class GraphLosesModel final : public Defect {
 public:
  Result<std::unique_ptr<Model>> load_model(Backend& backend, int32_t device, const ModelSpec& spec,
                                            const WeightSource& weights,
                                            const LoadOptions& options) override {
    picked_ = kFor(spec);
    return backend.load_model(device, spec, weights, options);
  }
  std::unique_ptr<Runner> wrap(std::unique_ptr<Runner> runner, const RunnerFacts& facts) override {
    const bool other_mode =
        kKind == RunnerKind::kPrefillGraph && facts.options.prefill_mode != kMode;
    if (!picked_ || facts.kind != kKind || other_mode) return runner;
    return std::make_unique<Spoiled>(std::move(runner), facts);
  }

 private:
  class Spoiled : public SpoilingRunner {
   public:
    using SpoilingRunner::SpoilingRunner;

   protected:
    bool spoils(const ForwardBatch&, int32_t) override { return true; }
  };
  bool picked_ = false;  // by the model loaded last
};

bool has_norm_of_heads(const ModelSpec& spec) { return spec.qk_norm; }
bool has_qkv_bias(const ModelSpec& spec) { return spec.qkv_bias; }

// Observers are told the number of the next layer.
class ObserverOffByOne final : public Defect {
 public:
  Status set_layer_observer(Model& model, LayerObserver observer) override {
    if (!observer) return model.set_layer_observer({});
    return model.set_layer_observer([observer](const LayerOutput& output) {
      LayerOutput shifted = output;
      ++shifted.layer;
      observer(shifted);
    });
  }
};

// Keys and values of f16 are wrong.
class F16CacheWrong final : public Defect {
 public:
  std::unique_ptr<Runner> wrap(std::unique_ptr<Runner> runner, const RunnerFacts& facts) override {
    if (facts.kv->info().dtype != DType::kF16) return runner;
    return std::make_unique<Spoiled>(std::move(runner), facts);
  }

 private:
  class Spoiled : public SpoilingRunner {
   public:
    using SpoilingRunner::SpoilingRunner;

   protected:
    // A token alone is its own only value, which f16 holds well enough.
    bool spoils(const ForwardBatch& batch, int32_t) override { return batch.kv_len[0] > 1; }
  };
};

// Eager steps lose the first tokens of a prompt longer than what attention takes at once.
class LongPromptCut : public SpoilingRunner {
 public:
  using SpoilingRunner::SpoilingRunner;

 protected:
  bool spoils(const ForwardBatch& batch, int32_t) override {
    constexpr int32_t kAtOnce = 256;
    return kind() == RunnerKind::kEager && batch.q_start[1] > kAtOnce;
  }
};

// Steps whose requests share pages read what these held before the step.
class SharedPagesStale : public SpoilingRunner {
 public:
  using SpoilingRunner::SpoilingRunner;

 protected:
  bool spoils(const ForwardBatch& batch, int32_t) override {
    return batch.num_requests() > 1 &&
           batch.page_ids[batch.page_start[0]] == batch.page_ids[batch.page_start[1]];
  }
};

}  // namespace

std::span<const DefectEntry> model_defects() {
  static const DefectEntry entries[] = {
      defect<AltersModel<mix_up_heads>>("heads_mixed_up"),
      defect<AltersModel<ignore_qkv_bias>>("qkv_bias_ignored"),
      defect<AltersModel<shift_tied_head>>("tied_head_shifted"),
      defect<AltersModel<ignore_rope_style>>("rope_style_ignored"),
      defect<AltersModel<ignore_rope_scale>>("rope_scale_ignored"),
      defect<AltersModel<misread_f16>>("f16_weights_misread"),
      defect<AltersModel<misread_unmapped>>("unmapped_weights_misread"),
      defect<F16CacheWrong>("f16_cache_wrong"),
      defect<WrapsAll<LongPromptCut>>("long_prompt_cut"),
      defect<WrapsAll<ChunkOffByOne>>("chunk_off_by_one"),
      defect<WrapsAll<RowsMixedUp>>("rows_mixed_up"),
      defect<GraphLosesModel<RunnerKind::kPrefillGraph, PrefillMode::kFull, has_norm_of_heads>>(
          "full_graph_without_norm"),
      defect<GraphLosesModel<RunnerKind::kPrefillGraph, PrefillMode::kBreakable, has_qkv_bias>>(
          "breakable_graph_without_bias"),
      defect<GraphLosesModel<RunnerKind::kDecodeGraph, PrefillMode::kOff, has_qkv_bias>>(
          "decode_graph_without_bias"),
      defect<ObserverOffByOne>("observer_off_by_one"),
      defect<WrapsAll<SharedPagesStale>>("shared_pages_stale"),
  };
  return entries;
}

}  // namespace encore::defects
