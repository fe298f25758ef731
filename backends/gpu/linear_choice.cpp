#include "linear_choice.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "encore/sdk/host.h"
#include "gpu_status.h"
#include "kernels/gpu/decode_linear.h"

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
constexpr int kTurns = 3;

void say(int32_t rows, const std::string& what) {
  sdk::log(sdk::LogLevel::kDebug, "products for " + std::to_string(rows) + " rows: " + what);
}

}  // namespace

// All variants of the streaming kernel; none if it does not serve the product.
Result<LinearChoice::Candidates> LinearChoice::streaming_candidates(LinearTiming& timing,
                                                                    const LinearGroup& group,
                                                                    int32_t rows) {
  const int32_t count = timing.num_variants(group, rows);
  Candidates found;
  for (int32_t variant = 0; variant < count; ++variant) {
    ENCORE_ASSIGN_OR_RETURN(const float us, timing.streaming_us(group, rows, variant));
    found.push_back({variant, us});
  }
  std::sort(found.begin(), found.end(),
            [](const Candidate& a, const Candidate& b) { return a.us < b.us; });
  return found;
}

Status LinearChoice::tune_logits(LinearTiming& timing, const LinearGroup& group, int32_t rows,
                                 int32_t* variant) {
  ENCORE_RETURN_IF_ERROR(timing.tune_blas(blas_, group, rows));
  if (!can_stream_ || rows > kDecodeLinearMaxRows) return {};
  ENCORE_ASSIGN_OR_RETURN(const Candidates found, streaming_candidates(timing, group, rows));
  if (found.empty()) return {};
  ENCORE_ASSIGN_OR_RETURN(const float blas_us, timing.blas_us(blas_, group, rows));
  if (found.front().us < blas_us) *variant = found.front().variant;
  return {};
}

// The BLAS with what comes after it, and the variants of our kernel for many rows. They take turns:
// over a long run of products a device slows itself down.
Result<LinearChoice::Candidates> LinearChoice::tiled_candidates(LinearTiming& timing,
                                                                const LinearGroup& group,
                                                                int32_t rows) {
  Candidates found(1);
  for (int32_t i = 0; i < timing.num_tiled_variants(group, rows); ++i) found.push_back({i});
  if (found.size() == 1) return found;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (Candidate& candidate : found) {
      ENCORE_ASSIGN_OR_RETURN(const float us,
                              candidate.variant == kByBlas
                                  ? timing.blas_us(blas_, group, rows)
                                  : timing.tiled_us(group, rows, candidate.variant));
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
Result<bool> LinearChoice::is_faster(LinearTiming& timing, std::span<const LinearGroup> layer,
                                     std::span<const int32_t> tried, std::span<const int32_t> best,
                                     int32_t rows, float* best_us) {
  ENCORE_ASSIGN_OR_RETURN(float us, timing.layer_us(blas_, layer, tried, rows));
  if (us > *best_us * kClose) return false;
  ENCORE_ASSIGN_OR_RETURN(const float best_again, timing.layer_us(blas_, layer, best, rows));
  ENCORE_ASSIGN_OR_RETURN(const float again, timing.layer_us(blas_, layer, tried, rows));
  us = (us + again) / 2;
  *best_us = (*best_us + best_again) / 2;
  if (us >= *best_us * kWorthIt) return false;
  *best_us = us;
  return true;
}

// Starts from what is fastest alone, and lets each product in turn try its best candidates. Gives
// the time of a layer.
Result<float> LinearChoice::choose_together(LinearTiming& timing,
                                            std::span<const LinearGroup> layer,
                                            std::span<const Candidates> candidates, int32_t rows,
                                            std::vector<int32_t>* best) {
  best->clear();
  for (const Candidates& found : candidates) best->push_back(found.front().variant);
  ENCORE_ASSIGN_OR_RETURN(float best_us, timing.layer_us(blas_, layer, *best, rows));
  const bool thorough = rows == 1;
  bool changed = true;
  for (int round = 0; changed && round < (thorough ? kManyRounds : kFewRounds); ++round) {
    changed = false;
    for (size_t i = 0; i < layer.size(); ++i) {
      const size_t count =
          thorough ? candidates[i].size() : std::min(candidates[i].size(), kFewCandidates);
      for (const Candidate& candidate : std::span(candidates[i]).first(count)) {
        std::vector<int32_t> tried = *best;
        tried[i] = candidate.variant;
        if (tried == *best) continue;
        ENCORE_ASSIGN_OR_RETURN(const bool faster,
                                is_faster(timing, layer, tried, *best, rows, &best_us));
        if (!faster) continue;
        *best = std::move(tried);
        changed = true;
      }
    }
  }
  return best_us;
}

Status LinearChoice::tune_layers(LinearTiming& timing, std::span<const LinearGroup> layer,
                                 int32_t rows, std::vector<int32_t>* variants) {
  for (const LinearGroup& group : layer) {
    ENCORE_RETURN_IF_ERROR(timing.tune_blas(blas_, group, rows));
  }
  if (!can_stream_) return {};
  return rows > kDecodeLinearMaxRows ? tune_tiled(timing, layer, rows, variants)
                                     : tune_streaming(timing, layer, rows, variants);
}

// All products of a layer or none.
Status LinearChoice::tune_streaming(LinearTiming& timing, std::span<const LinearGroup> layer,
                                    int32_t rows, std::vector<int32_t>* variants) {
  std::vector<Candidates> candidates;
  for (const LinearGroup& group : layer) {
    ENCORE_ASSIGN_OR_RETURN(auto found, streaming_candidates(timing, group, rows));
    if (found.empty()) {
      say(rows, "by the BLAS, since a matrix of " + std::to_string(group.shape.n) + " x " +
                    std::to_string(group.shape.k) + " cannot be streamed");
      return {};
    }
    candidates.push_back(std::move(found));
  }
  ENCORE_ASSIGN_OR_RETURN(const float blas_us, timing.layer_us(blas_, layer, *variants, rows));
  std::vector<int32_t> best;
  ENCORE_ASSIGN_OR_RETURN(const float best_us,
                          choose_together(timing, layer, candidates, rows, &best));
  say(rows, std::to_string(blas_us) + " us a layer by the BLAS, " + std::to_string(best_us) +
                " us streamed");
  if (best_us < blas_us) *variants = best;
  return {};
}

Status LinearChoice::tune_tiled(LinearTiming& timing, std::span<const LinearGroup> layer,
                                int32_t rows, std::vector<int32_t>* variants) {
  std::vector<Candidates> candidates;
  for (size_t i = 0; i < layer.size(); ++i) {
    ENCORE_ASSIGN_OR_RETURN(auto found, tiled_candidates(timing, layer[i], rows));
    (*variants)[i] = found.front().variant;
    candidates.push_back(std::move(found));
  }
  if (rows > kSplitLinearMaxRows) return {};
  ENCORE_ASSIGN_OR_RETURN(const float us,
                          choose_together(timing, layer, candidates, rows, variants));
  std::string what = std::to_string(us) + " us a layer by variants";
  for (const int32_t variant : *variants) what.append(" ").append(std::to_string(variant));
  say(rows, what);
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
  std::erase_if(grid, [&](int32_t rows) {
    return std::any_of(entries_.begin(), entries_.end(),
                       [&](const Entry& entry) { return entry.rows == rows; });
  });
  if (grid.empty() || groups.empty()) return {};
  std::vector<size_t> layer_groups;
  std::vector<LinearGroup> layer;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (is_logits(groups[i].shape)) continue;
    layer_groups.push_back(i);
    layer.push_back(groups[i]);
  }
  ENCORE_ASSIGN_OR_RETURN(const auto timing,
                          LinearTiming::create(groups, max_rows, max_logit_rows, account, stream));
  for (const int32_t rows : grid) {
    Entry entry{rows, std::vector<int32_t>(groups.size(), kByBlas)};
    std::vector<int32_t> variants(layer.size(), kByBlas);
    if (can_stream_ && rows <= kSplitLinearMaxRows) {
      ENCORE_RETURN_IF_ERROR(timing->prepare_layers(spec, device, rows));
    }
    ENCORE_RETURN_IF_ERROR(tune_layers(*timing, layer, rows, &variants));
    for (size_t i = 0; i < layer.size(); ++i) entry.variants[layer_groups[i]] = variants[i];
    for (size_t i = 0; i < groups.size(); ++i) {
      if (!is_logits(groups[i].shape) || rows > max_logit_rows) continue;
      ENCORE_RETURN_IF_ERROR(tune_logits(*timing, groups[i], rows, &entry.variants[i]));
    }
    entries_.push_back(std::move(entry));
  }
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.rows < b.rows; });
  return gpu_status(gpuStreamSynchronize(static_cast<gpuStream_t>(stream)), "timing products");
}

int32_t LinearChoice::variant(size_t group, int32_t rows) const {
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& e) { return e.rows >= rows; });
  return entry == entries_.end() ? kByBlas : entry->variants[group];
}

}  // namespace encore::gpu
