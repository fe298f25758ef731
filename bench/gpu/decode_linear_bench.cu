// How near the weight-streaming product comes to memory bandwidth on Llama-3.1-8B shapes.
//
// First table: each product alone, every variant, in GB/s, beside a plain read of the same weights
// in the same run. Second: a whole decode step as one graph, with default variants, with the best
// that keep a row's bits, and with the best of all. An argument (products, step) prints one table
// only.
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "decode_step.h"
#include "graph_timer.h"
#include "kernels/gpu/decode_linear.h"
#include "sm90/decode_linear_tuning.h"
#include "vendor.h"

namespace encore::gpu {
namespace {

constexpr int kAttentionCycles = 9000;  // about 5 us
constexpr int kMeasuredRows[] = {1, 8, 16, 32, 64};

double time_step(const StepMemory& b, int m, const Variants& variants, int cycles, bool overlap,
                 int rounds) {
  const std::vector<DecodeLinearPlan> plans = plan_step(b, m, variants);
  return time_graph(
      [&](cudaStream_t stream) {
        enqueue_step(plans, b, m, cycles, {stream, overlap});
      },
      rounds);
}

std::string text_of(const DecodeTuning& t) {
  char text[64];
  std::snprintf(text, sizeof(text), "%dx%d%s k/%d %dK t%d%s", t.warpgroups, t.tiles,
                t.sets == 2 ? " 2 sets" : "", t.split, t.smem_bytes >> 10, t.trigger_steps,
                t.blocks_per_sm == 2 ? " 2/SM" : "");
  return text;
}

// One product of all layers in a row. Variants differ with m only in order, so rows are tunings.
void print_alone(const StepMemory& b, Which which, double read_rate) {
  struct Row {
    std::string name;
    double rate[std::size(kMeasuredRows)] = {};
  };
  std::vector<Row> rows;
  for (size_t column = 0; column < std::size(kMeasuredRows); ++column) {
    const int m = kMeasuredRows[column];
    const int layers = which == kHeadOf ? 3 : kLayers;
    const DecodeLinearProblem first = problem_of(b, which, 0, m, 128);
    const std::vector<DecodeTuning> tunings = decode_tunings(first, decode_num_sms());
    for (size_t v = 0; v < tunings.size(); ++v) {
      std::vector<DecodeLinearPlan> plans(layers);
      for (int layer = 0; layer < layers; ++layer) {
        check(decode_linear_plan(problem_of(b, which, layer, m, 128), static_cast<int>(v),
                                 &plans[layer]),
              kNames[which]);
      }
      const double ms = time_graph(
          [&](cudaStream_t stream) {
            for (const DecodeLinearPlan& plan : plans) {
              check(decode_linear_run(plan, {stream, true}), kNames[which]);
            }
          },
          3);
      const std::string name = text_of(tunings[v]);
      auto row = std::find_if(rows.begin(), rows.end(),
                              [&](const Row& other) { return other.name == name; });
      if (row == rows.end()) row = rows.insert(rows.end(), Row{name, {}});
      row->rate[column] = 2.0 * first.n * first.k * layers / ms / 1e6;
    }
  }
  for (const Row& row : rows) {
    std::printf("%-8s %-24s", kNames[which], row.name.c_str());
    for (const double rate : row.rate) {
      rate > 0 ? std::printf(" %5.0f (%2.0f%%)", rate, 100 * rate / read_rate)
               : std::printf(" %11s", "-");
    }
    std::printf("\n");
  }
}

// Coordinate descent over the step's variants; keep_bits: only those that keep a row's bits.
double improve(const StepMemory& b, int m, bool keep_bits, double best, Variants* variants) {
  for (const Which which : {kGateUpOf, kDownOf, kQkvOf, kOOf, kHeadOf}) {
    const DecodeLinearProblem q = problem_of(b, which, 0, m, 128);
    const int start = variants->of[which];
    for (int v = 0; v < decode_linear_num_variants(q); ++v) {
      const bool same_bits = decode_linear_bits(q, v) == decode_linear_bits(q, 0);
      if (v == start || (keep_bits && !same_bits)) continue;
      Variants other = *variants;
      other.of[which] = v;
      const double ms = time_step(b, m, other, kAttentionCycles, true, 3);
      if (ms < best * 0.999) best = ms, *variants = other;
    }
  }
  return best;
}

void print_variants(const StepMemory& b, int m, const Variants& variants) {
  for (int i = 0; i < kProducts; ++i) {
    const auto tunings =
        decode_tunings(problem_of(b, static_cast<Which>(i), 0, m, 128), decode_num_sms());
    std::printf("%s %s{%s}", i == 0 ? "      " : "", kNames[i],
                text_of(tunings[variants.of[i]]).c_str());
  }
  std::printf("\n");
}

void print_step(const StepMemory& b, int m, double floor_ms) {
  Variants variants;
  const double default_ms = time_step(b, m, variants, kAttentionCycles, true, 9);
  const double same_ms = improve(b, m, true, default_ms, &variants);
  const Variants same = variants;
  const double free_ms = improve(b, m, false, same_ms, &variants);
  const double no_overlap_ms = time_step(b, m, same, kAttentionCycles, false, 5);
  const double no_attention_ms = time_step(b, m, same, 0, true, 5);
  std::printf("%3d %8.3f %8.3f %8.3f %10.3f %12.3f %8.3f (%2.0f%%)\n", m, default_ms, same_ms,
              free_ms, no_overlap_ms, no_attention_ms, floor_ms, 100 * floor_ms / same_ms);
  print_variants(b, m, same);
  print_variants(b, m, variants);
  std::fflush(stdout);
}

int run(std::string_view only) {
  const StepMemory b;
  const double bytes = 2.0 * kElements;
  const double read_ms = time_graph([&](cudaStream_t stream) { enqueue_read(b, stream); }, 5);
  const double read_rate = bytes / read_ms / 1e6;
  std::printf("weights %.3f GB, plain read %.0f GB/s (%.3f ms)\n\n", bytes / 1e9, read_rate,
              read_ms);

  auto wants = [&](std::string_view table) { return only.empty() || only == table; };
  if (wants("products")) {
    std::printf("GB/s of a product of all layers in a row (of plain read)\n%-33s", "");
    for (const int m : kMeasuredRows) std::printf(" m %-9d", m);
    std::printf("\n");
    for (int i = 0; i < kProducts; ++i) print_alone(b, static_cast<Which>(i), read_rate);
  }
  if (wants("step")) {
    std::printf("\nms a step\n%3s %8s %8s %8s %10s %12s %8s\n", "m", "default", "same", "free",
                "no overlap", "no attention", "floor");
    for (const int m : kMeasuredRows) print_step(b, m, read_ms);
  }
  return 0;
}

}  // namespace
}  // namespace encore::gpu

int main(int argc, char** argv) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::printf("no GPU here\n");
    return 0;
  }
  return encore::gpu::run(argc > 1 ? argv[1] : "");
}
