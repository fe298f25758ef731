#include "linear_choice.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "build_id.h"
#include "encore/sdk/host.h"
#include "gpu_status.h"
#include "kernels/gpu/decode_linear.h"
#include "kernels/gpu/split_linear.h"
#include "linear_timing.h"

namespace encore::gpu {
namespace {

constexpr std::array<int32_t, 14> kRowGrid = {1,   8,   16,   32,   64,   96,   128,
                                              256, 512, 1024, 2048, 4096, 8192, 16384};
// Candidates that a product tries in its turn, and the turns that each gets. At one row all and
// more: a layer is shortest there, and what a kernel leaves to the next counts most.
constexpr size_t kFewCandidates = 4;
constexpr int kFewRounds = 1;
constexpr int kManyRounds = 2;
constexpr float kWorthIt = 0.995F;  // of the best time, to be believed
constexpr float kClose = 1.01F;     // of the best time: worth a second look
constexpr float kFar = 1.03F;       // of the best time: not worth a second round
// Of our time: a BLAS that takes so much with the algorithms of its own choice is not tuned.
constexpr float kHopeless = 1.3F;
constexpr int kTurns = 3;

void say(int32_t rows, const std::string& what) {
  sdk::log(sdk::LogLevel::kDebug, "products for " + std::to_string(rows) + " rows: " + what);
}

std::string_view name_of(lowering::Epilogue epilogue) {
  switch (epilogue) {
    case lowering::Epilogue::kNone:
      return "";
    case lowering::Epilogue::kAdd:
      return " add";
    case lowering::Epilogue::kSiluMul:
      return " silu_mul";
    case lowering::Epilogue::kLogits:
      return " logits";
  }
  return "";
}

// All that a choice is made for, but the device: "128 rows, heads 32/8 of 128: [6144, 4096], ...".
std::string name_of(std::span<const LinearGroup> products, const ModelSpec& spec, int32_t rows) {
  std::string name = std::to_string(rows) + " rows, heads " + std::to_string(spec.num_heads) + "/" +
                     std::to_string(spec.num_kv_heads) + " of " + std::to_string(spec.head_dim);
  const char* separator = ": ";
  for (const LinearGroup& group : products) {
    name.append(separator).append("[").append(std::to_string(group.shape.n)).append(", ");
    name.append(std::to_string(group.shape.k)).append("]").append(name_of(group.shape.epilogue));
    if (group.shape.bias) name.append(" bias");
    separator = ", ";
  }
  return name;
}

// Whether kept choices, which anybody may have written, are such as a choice could be.
bool plausible(const LinearTimes& times, std::span<const LinearGroup> products, int32_t rows,
               std::span<const int32_t> variants) {
  if (variants.size() != products.size()) return false;
  const bool streamed = rows <= kDecodeLinearMaxRows;
  for (size_t i = 0; i < products.size(); ++i) {
    const int32_t count = streamed ? times.num_variants(products[i], rows)
                                   : times.num_tiled_variants(products[i], rows);
    if (variants[i] < kByBlas || variants[i] >= count) return false;
    // Streaming products hand norms to each other: all or none.
    if (streamed && (variants[i] == kByBlas) != (variants[0] == kByBlas)) return false;
  }
  return true;
}

// Of these, those that a product of the group is chosen for.
std::vector<int32_t> rows_of(const LinearGroup& group, std::span<const int32_t> grid,
                             int32_t max_logit_rows) {
  std::vector<int32_t> all(grid.begin(), grid.end());
  if (!is_logits(group.shape)) return all;
  for (int32_t& rows : all) rows = std::min(rows, max_logit_rows);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

// Without a build id a variant's number says nothing to the next start.
ChoiceCache cache_in(const std::filesystem::path& folder, const Blas& blas, bool can_stream) {
  const std::string build = own_build_id();
  const bool keeps = can_stream && !build.empty();
  return {keeps ? folder : std::filesystem::path(), blas.identity() + ", build " + build};
}

}  // namespace

LinearChoice::LinearChoice(Blas& blas, bool can_stream, const std::filesystem::path& folder)
    : blas_(blas), can_stream_(can_stream), kept_(cache_in(folder, blas, can_stream)) {
  const Status loaded = kept_.load();
  if (!loaded.ok()) sdk::log(sdk::LogLevel::kWarn, loaded.message());
}

// All variants of the streaming kernel; none if it does not serve the product.
Result<LinearChoice::Candidates> LinearChoice::streaming_candidates(LinearTimes& times,
                                                                    const LinearGroup& group,
                                                                    int32_t rows) {
  const int32_t count = times.num_variants(group, rows);
  Candidates found;
  for (int32_t variant = 0; variant < count; ++variant) {
    ENCORE_ASSIGN_OR_RETURN(const float us, times.streaming_us(group, rows, variant));
    found.push_back({variant, us});
  }
  std::sort(found.begin(), found.end(),
            [](const Candidate& a, const Candidate& b) { return a.us < b.us; });
  return found;
}

Status LinearChoice::tune_blas(LinearTimes& times, std::span<const LinearGroup> products,
                               int32_t rows) {
  for (const LinearGroup& group : products) {
    ENCORE_RETURN_IF_ERROR(times.tune_blas(blas_, group, rows));
  }
  return {};
}

// What time_blas() gives, with the BLAS tuned if that might make it faster than `our_us`.
Result<float> LinearChoice::tuned_us(LinearTimes& times, std::span<const LinearGroup> products,
                                     int32_t rows, float our_us,
                                     const std::function<Result<float>()>& time_blas) {
  ENCORE_ASSIGN_OR_RETURN(const float us, time_blas());
  if (us > kHopeless * our_us) return us;
  ENCORE_RETURN_IF_ERROR(tune_blas(times, products, rows));
  return time_blas();
}

Status LinearChoice::tune_logits(LinearTimes& times, std::span<const LinearGroup> logits,
                                 int32_t rows, int32_t* variant) {
  const LinearGroup& group = logits.front();
  if (rows > kDecodeLinearMaxRows) return tune_blas(times, logits, rows);
  ENCORE_ASSIGN_OR_RETURN(const Candidates found, streaming_candidates(times, group, rows));
  if (found.empty()) return tune_blas(times, logits, rows);
  const auto time_blas = [&] { return times.blas_us(blas_, group, rows); };
  ENCORE_ASSIGN_OR_RETURN(const float blas_us,
                          tuned_us(times, logits, rows, found.front().us, time_blas));
  if (found.front().us < blas_us) *variant = found.front().variant;
  return {};
}

// The BLAS with what comes after it, and the variants of our kernel for many rows. They take turns:
// over a long run of products a device slows itself down.
Result<LinearChoice::Candidates> LinearChoice::tiled_candidates(LinearTimes& times,
                                                                const LinearGroup& group,
                                                                int32_t rows) {
  Candidates found(1);
  for (int32_t i = 0; i < times.num_tiled_variants(group, rows); ++i) found.push_back({i});
  if (found.size() == 1) return found;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (Candidate& candidate : found) {
      ENCORE_ASSIGN_OR_RETURN(const float us, candidate.variant == kByBlas
                                                  ? times.blas_us(blas_, group, rows)
                                                  : times.tiled_us(group, rows, candidate.variant));
      candidate.us += us / kTurns;
    }
  }
  const float blas_us = found.front().us;
  std::sort(found.begin(), found.end(),
            [](const Candidate& a, const Candidate& b) { return a.us < b.us; });
  say(rows, "a matrix of " + std::to_string(group.shape.n) + " x " + std::to_string(group.shape.k) +
                " takes " + std::to_string(blas_us) + " us by the BLAS, " +
                std::to_string(found.front().us) + " us at best, variant " +
                std::to_string(found.front().variant));
  return found;
}

// Whether a layer with `tried` is faster than one with `best`, whose time is `best_us`. If they are
// close both are timed again, now one after the other: over a long run of products a device slows
// itself down.
Result<bool> LinearChoice::is_faster(LinearTimes& times, std::span<const LinearGroup> layer,
                                     std::span<const int32_t> tried, std::span<const int32_t> best,
                                     int32_t rows, float* best_us, float* beside_best) {
  ENCORE_ASSIGN_OR_RETURN(float us, times.layer_us(blas_, layer, tried, rows));
  *beside_best = us / *best_us;
  if (us > *best_us * kClose) return false;
  ENCORE_ASSIGN_OR_RETURN(const float best_again, times.layer_us(blas_, layer, best, rows));
  ENCORE_ASSIGN_OR_RETURN(const float again, times.layer_us(blas_, layer, tried, rows));
  us = (us + again) / 2;
  *best_us = (*best_us + best_again) / 2;
  if (us >= *best_us * kWorthIt) return false;
  *best_us = us;
  return true;
}

// Starts from what is fastest alone, and lets each product in turn try its best candidates. Gives
// the time of a layer.
Result<float> LinearChoice::choose_together(LinearTimes& times, std::span<const LinearGroup> layer,
                                            std::vector<Candidates> candidates, int32_t rows,
                                            std::vector<int32_t>* best) {
  best->clear();
  for (const Candidates& found : candidates) best->push_back(found.front().variant);
  ENCORE_ASSIGN_OR_RETURN(float best_us, times.layer_us(blas_, layer, *best, rows));
  const bool thorough = rows == 1;
  bool changed = true;
  for (int round = 0; changed && round < (thorough ? kManyRounds : kFewRounds); ++round) {
    changed = false;
    for (size_t i = 0; i < layer.size(); ++i) {
      const size_t count =
          thorough ? candidates[i].size() : std::min(candidates[i].size(), kFewCandidates);
      for (Candidate& candidate : std::span(candidates[i]).first(count)) {
        if (candidate.beside_best > kFar) continue;
        std::vector<int32_t> tried = *best;
        tried[i] = candidate.variant;
        if (tried == *best) continue;
        ENCORE_ASSIGN_OR_RETURN(const bool faster, is_faster(times, layer, tried, *best, rows,
                                                             &best_us, &candidate.beside_best));
        if (!faster) continue;
        *best = std::move(tried);
        changed = true;
      }
    }
  }
  return best_us;
}

Status LinearChoice::tune_layers(LinearTimes& times, std::span<const LinearGroup> layer,
                                 int32_t rows, std::vector<int32_t>* variants) {
  return rows > kDecodeLinearMaxRows ? tune_tiled(times, layer, rows, variants)
                                     : tune_streaming(times, layer, rows, variants);
}

// All products of a layer or none.
Status LinearChoice::tune_streaming(LinearTimes& times, std::span<const LinearGroup> layer,
                                    int32_t rows, std::vector<int32_t>* variants) {
  std::vector<Candidates> candidates;
  for (const LinearGroup& group : layer) {
    ENCORE_ASSIGN_OR_RETURN(auto found, streaming_candidates(times, group, rows));
    if (found.empty()) {
      say(rows, "by the BLAS, since a matrix of " + std::to_string(group.shape.n) + " x " +
                    std::to_string(group.shape.k) + " cannot be streamed");
      return tune_blas(times, layer, rows);
    }
    candidates.push_back(std::move(found));
  }
  std::vector<int32_t> best;
  ENCORE_ASSIGN_OR_RETURN(const float best_us,
                          choose_together(times, layer, std::move(candidates), rows, &best));
  const auto time_blas = [&] { return times.layer_us(blas_, layer, *variants, rows); };
  ENCORE_ASSIGN_OR_RETURN(const float blas_us, tuned_us(times, layer, rows, best_us, time_blas));
  say(rows, std::to_string(blas_us) + " us a layer by the BLAS, " + std::to_string(best_us) +
                " us streamed");
  if (best_us < blas_us) *variants = best;
  return {};
}

Status LinearChoice::tune_tiled(LinearTimes& times, std::span<const LinearGroup> layer,
                                int32_t rows, std::vector<int32_t>* variants) {
  ENCORE_RETURN_IF_ERROR(tune_blas(times, layer, rows));
  std::vector<Candidates> candidates;
  for (size_t i = 0; i < layer.size(); ++i) {
    ENCORE_ASSIGN_OR_RETURN(auto found, tiled_candidates(times, layer[i], rows));
    (*variants)[i] = found.front().variant;
    candidates.push_back(std::move(found));
  }
  if (rows > kSplitLinearMaxRows) return {};
  ENCORE_ASSIGN_OR_RETURN(const float us,
                          choose_together(times, layer, std::move(candidates), rows, variants));
  std::string what = std::to_string(us) + " us a layer by variants";
  for (const int32_t variant : *variants) what.append(" ").append(std::to_string(variant));
  say(rows, what);
  return {};
}

Status LinearChoice::choose(LinearTimes& times, std::span<const LinearGroup> products,
                            const ModelSpec& spec, const DeviceTraits& device, int32_t rows,
                            std::vector<int32_t>* variants) {
  if (!can_stream_ || products.empty()) return tune_blas(times, products, rows);
  const std::string name = name_of(products, spec, rows);
  const std::vector<int32_t>* kept = kept_.find(name);
  if (kept != nullptr && plausible(times, products, rows, *kept)) {
    *variants = *kept;
    for (size_t i = 0; i < products.size(); ++i) {
      if (variants->at(i) != kByBlas) continue;
      ENCORE_RETURN_IF_ERROR(tune_blas(times, products.subspan(i, 1), rows));
    }
    return {};
  }
  if (is_logits(products.front().shape)) {
    ENCORE_RETURN_IF_ERROR(tune_logits(times, products, rows, &variants->front()));
  } else {
    if (rows <= kSplitLinearMaxRows) {
      ENCORE_RETURN_IF_ERROR(times.prepare_layers(spec, device, rows));
    }
    ENCORE_RETURN_IF_ERROR(tune_layers(times, products, rows, variants));
  }
  kept_.put(name, *variants);
  return {};
}

Status LinearChoice::tune(std::span<const LinearGroup> groups, const ModelSpec& spec,
                          const DeviceTraits& device, int32_t max_rows, int32_t max_logit_rows,
                          MemoryAccount& account, void* stream) {
  std::vector<int32_t> grid;
  for (const int32_t rows : kRowGrid) {
    if (rows < max_rows) grid.push_back(rows);
  }
  grid.push_back(max_rows);
  bool all_chosen = true;
  for (size_t i = 0; i < groups.size(); ++i) {
    for (const int32_t rows : rows_of(groups[i], grid, max_logit_rows)) {
      all_chosen = all_chosen && has_chosen(i, rows);
    }
  }
  if (all_chosen) return {};
  ENCORE_ASSIGN_OR_RETURN(const auto timing,
                          LinearTiming::create(groups, max_rows, max_logit_rows, account, stream));
  ENCORE_RETURN_IF_ERROR(tune_by(*timing, groups, spec, device, grid, max_logit_rows));
  return gpu_status(gpuStreamSynchronize(static_cast<gpuStream_t>(stream)), "timing products");
}

Status LinearChoice::tune_by(LinearTimes& times, std::span<const LinearGroup> groups,
                             const ModelSpec& spec, const DeviceTraits& device,
                             std::span<const int32_t> grid, int32_t max_logit_rows) {
  std::vector<size_t> layer_groups;
  std::vector<LinearGroup> layer;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (is_logits(groups[i].shape)) continue;
    layer_groups.push_back(i);
    layer.push_back(groups[i]);
  }
  for (const int32_t rows : grid) {
    if (layer.empty() || has_chosen(layer_groups.front(), rows)) continue;
    std::vector<int32_t> variants(layer.size(), kByBlas);
    ENCORE_RETURN_IF_ERROR(choose(times, layer, spec, device, rows, &variants));
    for (size_t i = 0; i < layer.size(); ++i) take(layer_groups[i], rows, variants[i]);
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    if (!is_logits(groups[i].shape)) continue;
    for (const int32_t rows : rows_of(groups[i], grid, max_logit_rows)) {
      if (has_chosen(i, rows)) continue;
      std::vector<int32_t> variants{kByBlas};
      ENCORE_RETURN_IF_ERROR(choose(times, groups.subspan(i, 1), spec, device, rows, &variants));
      take(i, rows, variants.front());
    }
  }
  return {};
}

// The first choice for so many rows or more, or the end.
std::vector<LinearChoice::Chosen>::const_iterator LinearChoice::chosen_for(size_t group,
                                                                           int32_t rows) const {
  return std::lower_bound(
      chosen_[group].begin(), chosen_[group].end(), rows,
      [](const Chosen& chosen, int32_t sought) { return chosen.rows < sought; });
}

bool LinearChoice::has_chosen(size_t group, int32_t rows) const {
  if (group >= chosen_.size()) return false;
  const auto found = chosen_for(group, rows);
  return found != chosen_[group].end() && found->rows == rows;
}

void LinearChoice::take(size_t group, int32_t rows, int32_t variant) {
  if (group >= chosen_.size()) chosen_.resize(group + 1);
  chosen_[group].insert(chosen_for(group, rows), {rows, variant});
}

int32_t LinearChoice::variant(size_t group, int32_t rows) const {
  if (group >= chosen_.size()) return kByBlas;
  const auto found = chosen_for(group, rows);
  return found == chosen_[group].end() ? kByBlas : found->variant;
}

}  // namespace encore::gpu
