// Causal attention over a paged KV cache, for any mix of prefill chunks and decodes in one launch
// sequence whose shape depends on the recorded sizes only.
//
// Once a step, attention_plan() cuts the work on the device: requests that bring one token go to
// the decode kernel, in pieces of their context (split KV); others to the prefill kernel, in tiles
// of query rows. Then attention_run() in each layer launches both kernels (decode alone if recorded
// so); thread blocks beyond the live number of pieces leave at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gpu/device_traits.h"
#include "kernels/gpu/kv_layout.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/rope.h"

namespace encore::gpu {

// Which implementation serves a shape. Chosen once, from shape and device, by attention_path().
enum class AttentionPath : int32_t {
  kPlain = 0,   // any head_dim that is a multiple of 8 up to 256, any group, any element: no matrix
                // instructions. The specification of the others
  kTensor = 1,  // warp-level matrix instructions (sm_80 and later): head_dim 64, 96, 128, fp16 and
                // bf16, any group
  kHopper = 2,  // as kTensor, with prefill by TMA and wgmma for head_dim 64 and 128
  kMfma = 3,    // as kTensor, on the matrix unit of AMD's CDNA 2 and 3: 64 lanes
  kWmma = 4,    // likewise, of RDNA 3: 32 lanes
  kMma = 5,     // kTensor, but prefill by the source of kMfma and kWmma; never chosen: it lets an
                // NVIDIA GPU test that
};

// Requests of a step, at most.
inline constexpr int32_t kAttentionMaxRequests = 1024;

struct AttentionShape {
  int32_t num_heads = 0;  // a multiple of num_kv_heads
  KvLayout kv;
  Element element = Element::kBF16;  // of q and y; except in kPlain equal to the cache's
};

// The best path that a device offers.
AttentionPath attention_path(const AttentionShape& shape, const DeviceTraits& device);

// Tokens of a step of up to so many requests, at most, unless it is of decodes alone: the plan
// holds its tiles in shared memory while it orders them. kPlain, which has no plan, takes any
// number. REQUIRES: the path serves the shape.
int32_t attention_max_tokens(const AttentionShape& shape, int32_t max_requests, AttentionPath path);

// Recorded sizes of a step.
struct AttentionBounds {
  int32_t max_tokens = 0;      // rows of q; at most attention_max_tokens()
  int32_t max_requests = 0;    // at most 1024
  bool decode_only = false;    // every live request brings exactly one token, in order
  int32_t num_processors = 0;  // multiprocessors of the device
};

// Device addresses of the step's inputs; meaning as in encore::ForwardBatch.
struct AttentionInputs {
  const int32_t* num_requests = nullptr;  // [1]
  const int32_t* q_start = nullptr;       // [max_requests + 1]
  const int32_t* kv_len = nullptr;        // [max_requests], this step's tokens included
  const int32_t* page_start = nullptr;    // [max_requests + 1]
  const int32_t* page_ids = nullptr;
};

// Bytes of workspace that plan and run share, for these bounds and any smaller ones. 256-byte
// aligned. Zero it once; afterwards it may hold anything between steps except that
// attention_plan() must have run in the step before attention_run() does. (It resets what it must:
// poisoning the workspace between steps changes nothing.) kPlain needs none: 0.
size_t attention_workspace_bytes(const AttentionShape& shape, const AttentionBounds& bounds,
                                 AttentionPath path);

// One small kernel: reads lengths, writes the work lists into the workspace. kPlain: nothing.
// Errors, of attention_run() too: the vendor's invalid value for a shape that the path does not
// serve, a path that this build or the launch's lanes do not have, and bounds past their limits.
LaunchError attention_plan(const AttentionShape& shape, const AttentionBounds& bounds,
                           AttentionPath path, const AttentionInputs& inputs, void* workspace,
                           const Launch& launch);

// q and y are rows of a wider matrix, row strides in elements (multiples of 8), 16-byte aligned.
struct AttentionArgs {
  AttentionInputs inputs;
  KvPages kv;
  const void* q = nullptr;  // [max_tokens, num_heads, head_dim], rotated
  int64_t q_stride = 0;
  void* y = nullptr;  // [max_tokens, num_heads, head_dim]; must not overlap q
  int64_t y_stride = 0;
  float scale = 0.0F;  // usually 1 / sqrt(head_dim)
  void* workspace = nullptr;
};

LaunchError attention_run(const AttentionShape& shape, const AttentionBounds& bounds,
                          AttentionPath path, const AttentionArgs& args, const Launch& launch);

// Whether rope_attention_run() serves these: decode steps of one request on kTensor and kHopper,
// bf16, rotary_dim a multiple of 16. With more requests, one may read the page that another writes.
bool rope_attention_serves(const AttentionShape& shape, const AttentionBounds& bounds,
                           AttentionPath path, const RopeKvArgs& rope);

// rope_kv_write(), then attention_run(), in one kernel: the same bits in y and in the cache; q
// stays as it is. Both arguments describe the same heads: args.q is the q of rope.qkv.
LaunchError rope_attention_run(const AttentionShape& shape, const AttentionBounds& bounds,
                               AttentionPath path, const RopeKvArgs& rope,
                               const AttentionArgs& args, const Launch& launch);

}  // namespace encore::gpu
