#include <algorithm>
#include <span>

#include "sm90/decode_linear_geometry.h"
#include "sm90/decode_linear_shape.cuh"
#include "sm90/decode_linear_tuning.h"

namespace encore::gpu {
namespace {

constexpr int kHalf = kHalfSmemBytes;
constexpr int kWhole = kWholeSmemBytes;
constexpr int kMostVariants = 6;

// Per epilogue, in order of preference among equals: {warpgroups, tiles, sets, split, smem,
// trigger, blocks_per_sm}. A ring of 96 or 150 KB leaves the kernel before or after more or less
// room.
constexpr DecodeTuning kAddTunings[] = {
    {1, 1, 1, 2, kHalf}, {1, 1, 1, 2, 150 << 10}, {1, 1, 1, 4, kHalf},    {1, 1, 1, 1, kHalf},
    {2, 1, 1, 4, kHalf}, {2, 1, 1, 4, 150 << 10}, {1, 1, 1, 2, 96 << 10}, {1, 1, 1, 4, 150 << 10},
    {2, 1, 1, 2, kHalf}, {2, 1, 1, 1, kHalf},
};
constexpr DecodeTuning kStoreTunings[] = {
    {1, 1, 1, 2, kHalf},  {1, 1, 1, 1, kHalf, 4, 2}, {1, 1, 1, 4, kHalf}, {2, 1, 1, 4, kHalf},
    {1, 2, 2, 1, kWhole}, {2, 2, 1, 1, kWhole},      {1, 2, 2, 1, kHalf}, {1, 1, 1, 1, kHalf},
};
constexpr DecodeTuning kSiluTunings[] = {
    {1, 2, 1, 1, kHalf, 12}, {1, 2, 1, 1, kHalf, 4, 2}, {1, 2, 2, 1, kWhole}, {2, 2, 1, 1, kWhole},
    {2, 1, 1, 2, kHalf},     {2, 1, 1, 4, kHalf},       {1, 2, 2, 1, kHalf},  {2, 1, 1, 2, kWhole},
};

std::span<const DecodeTuning> tunings_of(DecodeEpilogue epilogue) {
  switch (epilogue) {
    case DecodeEpilogue::kSiluMul:
      return kSiluTunings;
    case DecodeEpilogue::kAdd:
      return kAddTunings;
    case DecodeEpilogue::kStore:
      break;
  }
  return kStoreTunings;
}

// What a choice must share for a row to keep its bits: how its sums over k are cut, and for kAdd
// how those of sumsq_out are.
struct Bits {
  int split, row_tiles;
  bool operator==(const Bits&) const = default;
};
Bits bits_of(const DecodeLinearProblem& problem, const DecodeTuning& t) {
  return {t.split, problem.epilogue == DecodeEpilogue::kAdd ? t.row_tiles() : 0};
}

// Which part of the multiprocessors' time has rows to work on.
double use_of(const DecodeLinearProblem& problem, const DecodeTuning& t, int num_sms) {
  const DecodeGeometry g = decode_geometry(problem, t, num_sms);
  const int blocks = g.num_row_groups * t.split;
  const int waves = (blocks + num_sms - 1) / num_sms;
  const double tiles = static_cast<double>(problem.n) / kMmaRows;
  return tiles * t.split / (static_cast<double>(waves) * num_sms * t.row_tiles());
}

// Bits of variant 0: from n, k and the epilogue alone. Low row groups, and the fewest blocks a
// cluster that still put one on most multiprocessors: an exchange costs time, and more the more
// blocks take part.
Bits default_bits(const DecodeLinearProblem& problem, int num_sms) {
  const bool silu = problem.epilogue == DecodeEpilogue::kSiluMul;
  const int rows = silu ? 2 * kMmaRows : kMmaRows;
  const int groups = (problem.n + rows - 1) / rows;
  const int steps = problem.k / kStepK;
  int split = 1;
  while (split < kMaxSplit && steps % (2 * split) == 0 && 10 * groups * split < 8 * num_sms) {
    split *= 2;
  }
  if (problem.epilogue != DecodeEpilogue::kAdd) return {split, 0};
  return {split, groups * split > kDecodeLinearMaxSumsq ? 2 : 1};
}

// Whether a deep ring is worth the room that it takes from the next kernel's: a long slice of k
// lasts long enough, and many rows of x leave little of a shallow ring to weights.
bool prefers_deep(const DecodeLinearProblem& problem, const DecodeGeometry& g) {
  return g.form.direct ? problem.m > 16 : g.k_steps >= 64;
}

// Smaller is better.
struct Rank {
  bool other_bits, shallow, other_depth;
  int idle;  // in twentieths
  auto operator<=>(const Rank&) const = default;
};

}  // namespace

int decode_num_sms() {
  int device = 0;
  int num_sms = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  if (cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) {
    return 0;
  }
  return num_sms;
}

std::vector<DecodeTuning> decode_tunings(const DecodeLinearProblem& problem, int num_sms) {
  if (num_sms <= 0 || !decode_linear_serves(problem)) return {};
  const Bits bits = default_bits(problem, num_sms);
  std::vector<DecodeTuning> found;
  for (const DecodeTuning& t : tunings_of(problem.epilogue)) {
    if (decode_geometry_valid(problem, decode_geometry(problem, t, num_sms))) found.push_back(t);
  }
  auto rank = [&](const DecodeTuning& t) {
    const DecodeGeometry g = decode_geometry(problem, t, num_sms);
    const bool deep = t.smem_bytes > kHalf;
    return Rank{bits_of(problem, t) != bits, g.stages < 4, deep != prefers_deep(problem, g),
                static_cast<int>(20.0 * (1.0 - use_of(problem, t, num_sms)))};
  };
  std::stable_sort(found.begin(), found.end(),
                   [&](const DecodeTuning& a, const DecodeTuning& b) { return rank(a) < rank(b); });
  if (found.size() > kMostVariants) found.resize(kMostVariants);
  return found;
}

int32_t decode_linear_num_variants(const DecodeLinearProblem& problem) {
  return static_cast<int32_t>(decode_tunings(problem, decode_num_sms()).size());
}

int32_t decode_linear_bits(const DecodeLinearProblem& problem, int32_t variant) {
  const std::vector<DecodeTuning> tunings = decode_tunings(problem, decode_num_sms());
  if (variant < 0 || variant >= static_cast<int32_t>(tunings.size())) return -1;
  const Bits bits = bits_of(problem, tunings[variant]);
  return bits.split * 16 + bits.row_tiles;
}

}  // namespace encore::gpu
