// libhipblaslt.so.0: of hipBLASLt what the plugin calls, as ROCm 5.7 has it, over the stand-in's
// run-time. It knows four algorithms, in this order:
//
//   1  computes three times as much as it must, into the workspace; 40 times for k of 256 and more,
//      so that it is the slowest on a busy machine too
//   2  is fast, and gives other bits every other time
//   3  is refused when it is to run
//   4  is fast
//
// and none for k below 32. Runs are counted under "hipblasLtMatmul algorithm N" as well.
#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "collective_bridge.h"
#include "product.h"
#include "product_bridge.h"

namespace {

enum Status : int {
  kSuccess = 0,
  kInvalidValue = 3,
  kInternalError = 6,
  kNotSupported = 7,
};
constexpr int kF32 = 151;
constexpr int kBf16 = 168;
constexpr int kSumsF32 = 300;
constexpr int32_t kTranspose = 112;
constexpr uint32_t kBias = 4;  // an epilogue
constexpr int kVersion = 300;  // 0.3.0
constexpr int kMinK = 32;
constexpr int kSlowerK = 256;
enum Attribute : int {
  kOperationA = 0,
  kOperationB = 1,
  kEpilogue = 2,
  kBiasPointer = 3,
  kBiasType = 4
};
constexpr int kMaxWorkspace = 1;  // a preference
enum Algorithm : int32_t { kSlow = 1, kDiffers = 2, kRefused = 3, kFast = 4 };

struct Handle {
  int64_t runs = 0;
};
struct Desc {
  int32_t operation_a = 0;
  uint32_t epilogue = 1;
  int32_t bias_type = -1;
  const void* bias = nullptr;
};
struct Layout {
  int type = 0;
  uint64_t rows = 0;
  uint64_t columns = 0;
  int64_t stride = 0;
};
struct Preference {
  uint64_t max_workspace = 0;
};
struct AlgorithmBytes {
  int32_t index = 0;
  int32_t rest[3] = {};
  size_t max_workspace = 0;
};
struct Heuristic {
  AlgorithmBytes algorithm;
  size_t workspace = 0;
  int state = 0;
  float waves = 1.0F;
  int reserved[4] = {};
};

// y^T [n, m] = w^T [n, k] x^T [k, m], with these as a, b and d.
bool known(const Desc& desc, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  const bool bias = desc.epilogue == kBias;
  return desc.operation_a == kTranspose && a.type == kBf16 && b.type == kBf16 &&
         (d.type == kBf16 || d.type == kF32) && c.type == d.type && a.rows == b.rows &&
         a.columns == d.rows && b.columns == d.columns && a.rows >= kMinK &&
         (!bias || (desc.bias_type == kBf16 && d.type == kBf16));
}

size_t slow_workspace(const Layout& d) { return d.rows * d.columns * sizeof(float); }

template <typename T>
bool take(T* value, const void* from, size_t bytes) {
  if (bytes != sizeof(T)) return false;
  std::memcpy(value, from, bytes);
  return true;
}

encore::standin::ProductArgs args_of(const Layout& a, const Layout& b, const Layout& d,
                                     const void* a_data, const void* b_data, void* d_data) {
  encore::standin::ProductArgs args;
  args.m = static_cast<int32_t>(d.rows);
  args.n = static_cast<int32_t>(d.columns);
  args.k = static_cast<int32_t>(a.rows);
  args.a = static_cast<const uint16_t*>(a_data);
  args.a_stride = static_cast<int32_t>(a.stride);
  args.b = static_cast<const uint16_t*>(b_data);
  args.b_stride = static_cast<int32_t>(b.stride);
  args.d = d_data;
  args.d_stride = static_cast<int32_t>(d.stride);
  args.d_is_f32 = d.type == kF32;
  return args;
}

int run(const char* name, const encore::standin::ProductArgs& args, hipStream_t stream) {
  return encore_standin_product(name, &args, stream) == 0 ? kSuccess : kInternalError;
}

}  // namespace

#define ENCORE_EXPORT __attribute__((visibility("default")))

extern "C" {

ENCORE_EXPORT int hipblasLtCreate(Handle** handle) {
  const int failure = encore_standin_call("hipblasLtCreate");
  if (failure == 0) *handle = new Handle;
  return failure;
}
ENCORE_EXPORT int hipblasLtDestroy(Handle* handle) {
  delete handle;
  return encore_standin_call("hipblasLtDestroy");
}
ENCORE_EXPORT int hipblasLtGetVersion(Handle*, int* version) {
  // A failure that a test plans for this call is another version.
  const int planned = encore_standin_call("hipblasLtGetVersion");
  *version = planned != 0 ? planned : kVersion;
  return kSuccess;
}

ENCORE_EXPORT int hipblasLtMatrixLayoutCreate(Layout** layout, int type, uint64_t rows,
                                              uint64_t columns, int64_t stride) {
  const int failure = encore_standin_call("hipblasLtMatrixLayoutCreate");
  if (failure == 0) *layout = new Layout{type, rows, columns, stride};
  return failure;
}
ENCORE_EXPORT int hipblasLtMatrixLayoutDestroy(Layout* layout) {
  delete layout;
  return kSuccess;
}

ENCORE_EXPORT int hipblasLtMatmulDescCreate(Desc** desc, int compute, int scale) {
  if (compute != kSumsF32 || scale != kF32) return kNotSupported;
  const int failure = encore_standin_call("hipblasLtMatmulDescCreate");
  if (failure == 0) *desc = new Desc;
  return failure;
}
ENCORE_EXPORT int hipblasLtMatmulDescDestroy(Desc* desc) {
  delete desc;
  return kSuccess;
}
ENCORE_EXPORT int hipblasLtMatmulDescSetAttribute(Desc* desc, int attribute, const void* value,
                                                  size_t bytes) {
  bool taken = false;
  if (attribute == kOperationA) taken = take(&desc->operation_a, value, bytes);
  if (attribute == kEpilogue) taken = take(&desc->epilogue, value, bytes);
  if (attribute == kBiasPointer) taken = take(&desc->bias, value, bytes);
  if (attribute == kBiasType) taken = take(&desc->bias_type, value, bytes);
  return taken ? kSuccess : kInvalidValue;
}

ENCORE_EXPORT int hipblasLtMatmulPreferenceCreate(Preference** preference) {
  const int failure = encore_standin_call("hipblasLtMatmulPreferenceCreate");
  if (failure == 0) *preference = new Preference;
  return failure;
}
ENCORE_EXPORT int hipblasLtMatmulPreferenceDestroy(Preference* preference) {
  delete preference;
  return kSuccess;
}
ENCORE_EXPORT int hipblasLtMatmulPreferenceSetAttribute(Preference* preference, int attribute,
                                                        const void* value, size_t bytes) {
  if (attribute != kMaxWorkspace || !take(&preference->max_workspace, value, bytes)) {
    return kInvalidValue;
  }
  return kSuccess;
}

ENCORE_EXPORT int hipblasLtMatmulAlgoGetHeuristic(Handle*, const Desc* desc, const Layout* a,
                                                  const Layout* b, const Layout* c, const Layout* d,
                                                  const Preference* preference, int wanted,
                                                  Heuristic* results, int* found) {
  *found = 0;
  const int failure = encore_standin_call("hipblasLtMatmulAlgoGetHeuristic");
  if (failure != 0) return failure;
  if (!known(*desc, *a, *b, *c, *d)) return kSuccess;
  for (const Algorithm index : {kSlow, kDiffers, kRefused, kFast}) {
    const size_t workspace = index == kSlow ? slow_workspace(*d) : 0;
    if (*found == wanted || workspace > preference->max_workspace) continue;
    results[(*found)++] = {{index, {}, preference->max_workspace}, workspace};
  }
  return kSuccess;
}

ENCORE_EXPORT int hipblasLtMatmul(Handle* handle, const Desc* desc, const void* alpha,
                                  const void* a_data, const Layout* a, const void* b_data,
                                  const Layout* b, const void* beta, const void* c_data,
                                  const Layout* c, void* d_data, const Layout* d,
                                  const AlgorithmBytes* algorithm, void* workspace,
                                  size_t workspace_bytes, hipStream_t stream) {
  const std::string counted = "hipblasLtMatmul algorithm " + std::to_string(algorithm->index);
  if (const int failure = encore_standin_call(counted.c_str()); failure != 0) return failure;
  if (algorithm->index == kRefused) return kNotSupported;
  if (!known(*desc, *a, *b, *c, *d) || c_data != d_data ||
      *static_cast<const float*>(alpha) != 1.0F) {
    return kInvalidValue;
  }
  if (algorithm->index == kSlow) {
    if (workspace_bytes < slow_workspace(*d)) return kInvalidValue;
    auto waste = args_of(*a, *b, *d, a_data, b_data, workspace);
    waste.d_stride = waste.m;
    waste.d_is_f32 = true;
    const int wasted = waste.k >= kSlowerK ? 40 : 2;
    for (int i = 0; i < wasted; ++i) {
      if (const int failed = run("hipblasLtMatmul waste", waste, stream); failed != 0)
        return failed;
    }
  }
  auto args = args_of(*a, *b, *d, a_data, b_data, d_data);
  args.beta = *static_cast<const float*>(beta);
  if (desc->epilogue == kBias) args.bias = static_cast<const uint16_t*>(desc->bias);
  const int failed = run("hipblasLtMatmul", args, stream);
  if (failed != 0 || algorithm->index != kDiffers || ++handle->runs % 2 != 0) return failed;
  args.k = 1;
  args.beta = 1.0F;
  args.bias = nullptr;
  return run("hipblasLtMatmul", args, stream);
}
}
