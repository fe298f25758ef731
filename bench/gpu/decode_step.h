// A decode step of Llama-3.1-8B's shapes for benchmarks: its products, with norms inside them, and
// small kernels that stand for rope and attention between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/gpu/decode_linear.h"
#include "vendor.h"

namespace encore::gpu {

inline constexpr int kHidden = 4096;
inline constexpr int kQkvRows = 6144;
inline constexpr int kInter = 14336;
inline constexpr int kVocab = 128256;
inline constexpr int kLayers = 32;

enum Which { kQkvOf, kOOf, kGateUpOf, kDownOf, kHeadOf, kProducts };
inline constexpr const char* kNames[kProducts] = {"qkv", "o", "gate_up", "down", "lm_head"};

inline constexpr size_t kLayerElements =
    static_cast<size_t>(kHidden) * (kQkvRows + kHidden + 3 * size_t{kInter});
inline constexpr size_t kElements =
    kLayers * kLayerElements + static_cast<size_t>(kVocab) * kHidden;

// Weights of all layers, and a step's activations for up to 64 rows. Lives as long as the program.
struct StepMemory {
  bf16* weights;
  bf16 *norm, *h0, *h, *x, *qkv, *attended, *act;
  float *logits, *sumsq;
  uint32_t* sink;

  StepMemory();  // filled with random values
};

// Which variant of each product.
struct Variants {
  int of[kProducts] = {};
};

// Product `which` of layer `layer`; num_sumsq: what the product before leaves.
DecodeLinearProblem problem_of(const StepMemory& b, Which which, int layer, int m, int num_sumsq);

// A step's products in their order.
std::vector<DecodeLinearPlan> plan_step(const StepMemory& b, int m, const Variants& variants);

// `attention_cycles`: clock cycles that a layer's attention takes at least.
void enqueue_step(const std::vector<DecodeLinearPlan>& plans, const StepMemory& b, int m,
                  int attention_cycles, const Launch& launch);

// Reads all weights and does nothing with them: the least that a step can take.
void enqueue_read(const StepMemory& b, cudaStream_t stream);

}  // namespace encore::gpu
