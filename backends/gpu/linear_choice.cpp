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
constexpr size_t kRivals = 3;      // variants that are tried in the place of the best one alone
constexpr float kWorthIt = 0.99F;  // of the time so far, to be believed
constexpr int kTurns = 3;

struct Candidate {
  int32_t variant = 0;
  float us = 0.0F;
};

// All variants of a product, the fastest alone first; none if the kernel does not serve it.
Result<std::vector<Candidate>> candidates(LinearTiming& timing, const LinearGroup& group,
                                          int32_t rows) {
  const int32_t count = timing.num_variants(group, rows);
  std::vector<Candidate> found;
  for (int32_t variant = 0; variant < count; ++variant) {
    ENCORE_ASSIGN_OR_RETURN(const float us, timing.streaming_us(group, rows, variant));
    found.push_back({variant, us});
  }
  std::sort(found.begin(), found.end(),
            [](const Candidate& a, const Candidate& b) { return a.us < b.us; });
  return found;
}

void say(int32_t rows, const std::string& what) {
  sdk::log(sdk::LogLevel::kDebug, "products for " + std::to_string(rows) + " rows: " + what);
}

}  // namespace

Status LinearChoice::tune_logits(LinearTiming& timing, const LinearGroup& group, int32_t rows,
                                 int32_t* variant) {
  ENCORE_RETURN_IF_ERROR(timing.tune_blas(blas_, group, rows));
  if (!can_stream_ || rows > kDecodeLinearMaxRows) return {};
  ENCORE_ASSIGN_OR_RETURN(const auto found, candidates(timing, group, rows));
  if (found.empty()) return {};
  ENCORE_ASSIGN_OR_RETURN(const float blas_us, timing.blas_us(blas_, group, rows));
  if (found.front().us < blas_us) *variant = found.front().variant;
  return {};
}

// The gated kernel where it is faster than the BLAS and the SiLU-mul after it. They take turns:
// over a long run of products a device slows itself down.
Status LinearChoice::tune_gated(LinearTiming& timing, const LinearGroup& group, int32_t rows,
                                int32_t* variant) {
  const int32_t count = timing.num_gated_variants(group, rows);
  if (count == 0) return {};
  float blas_us = 0.0F;
  std::vector<Candidate> found(static_cast<size_t>(count));
  for (int turn = 0; turn < kTurns; ++turn) {
    ENCORE_ASSIGN_OR_RETURN(float us, timing.blas_us(blas_, group, rows));
    blas_us += us;
    for (int32_t tried = 0; tried < count; ++tried) {
      ENCORE_ASSIGN_OR_RETURN(us, timing.gated_us(group, rows, tried));
      found[static_cast<size_t>(tried)].variant = tried;
      found[static_cast<size_t>(tried)].us += us;
    }
  }
  const auto best =
      std::min_element(found.begin(), found.end(),
                       [](const Candidate& a, const Candidate& b) { return a.us < b.us; });
  say(rows, std::to_string(blas_us / kTurns) + " us for gate and up by the BLAS, " +
                std::to_string(best->us / kTurns) + " us in one kernel");
  if (best->us < blas_us) *variant = best->variant;
  return {};
}

// Starts from what is fastest alone, and lets each product in turn try its next best variants.
Status LinearChoice::tune_layers(LinearTiming& timing, std::span<const LinearGroup> groups,
                                 std::span<const size_t> layer_groups, Entry& entry) {
  std::vector<LinearGroup> layer;
  std::vector<std::vector<Candidate>> rivals;
  std::vector<int32_t> best;
  for (const size_t index : layer_groups) {
    ENCORE_RETURN_IF_ERROR(timing.tune_blas(blas_, groups[index], entry.rows));
    layer.push_back(groups[index]);
  }
  if (!can_stream_) return {};
  if (entry.rows > kDecodeLinearMaxRows) {
    for (const size_t index : layer_groups) {
      ENCORE_RETURN_IF_ERROR(tune_gated(timing, groups[index], entry.rows, &entry.variants[index]));
    }
    return {};
  }
  for (const LinearGroup& group : layer) {
    ENCORE_ASSIGN_OR_RETURN(auto found, candidates(timing, group, entry.rows));
    if (found.empty()) {
      say(entry.rows, "by the BLAS, since a matrix of " + std::to_string(group.shape.n) + " x " +
                          std::to_string(group.shape.k) + " cannot be streamed");
      return {};
    }
    best.push_back(found.front().variant);
    rivals.push_back(std::move(found));
  }
  ENCORE_ASSIGN_OR_RETURN(const float blas_us, timing.layer_us(blas_, layer, {}, entry.rows));
  ENCORE_ASSIGN_OR_RETURN(float best_us, timing.layer_us(blas_, layer, best, entry.rows));
  for (size_t i = 0; i < layer.size(); ++i) {
    for (size_t rival = 1; rival < std::min(rivals[i].size(), kRivals + 1); ++rival) {
      std::vector<int32_t> tried = best;
      tried[i] = rivals[i][rival].variant;
      ENCORE_ASSIGN_OR_RETURN(const float us, timing.layer_us(blas_, layer, tried, entry.rows));
      if (us >= best_us * kWorthIt) continue;
      best_us = us;
      best = std::move(tried);
    }
  }
  say(entry.rows, std::to_string(blas_us) + " us a layer by the BLAS, " + std::to_string(best_us) +
                      " us streamed");
  if (best_us >= blas_us) return {};
  for (size_t i = 0; i < layer_groups.size(); ++i) entry.variants[layer_groups[i]] = best[i];
  return {};
}

Status LinearChoice::tune(std::span<const LinearGroup> groups, int32_t max_rows,
                          int32_t max_logit_rows, MemoryAccount& account, void* stream) {
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
  for (size_t i = 0; i < groups.size(); ++i) {
    if (!is_logits(groups[i].shape)) layer_groups.push_back(i);
  }
  ENCORE_ASSIGN_OR_RETURN(const auto timing,
                          LinearTiming::create(groups, max_rows, max_logit_rows, account, stream));
  for (const int32_t rows : grid) {
    Entry entry{rows, std::vector<int32_t>(groups.size(), kByBlas)};
    ENCORE_RETURN_IF_ERROR(tune_layers(*timing, groups, layer_groups, entry));
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
