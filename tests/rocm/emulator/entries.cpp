// The launch functions of kernels/gpu under C names, for the emulator's driver, which fills the
// argument structures by itself (kernel_library.py): each entry has a constant with the size of its
// structure, so that a difference in layout is noticed.
#include "kernels/gpu/attention.h"
#include "kernels/gpu/dequantize.h"
#include "kernels/gpu/linear.h"
#include "kernels/gpu/norm.h"
#include "kernels/gpu/rope.h"
#include "kernels/gpu/rows.h"
#include "kernels/gpu/sample.h"

using namespace encore::gpu;  // NOLINT(google-build-using-namespace): all names here are of it

#define ENCORE_SIZE(Type) extern "C" const size_t encore_sizeof_##Type = sizeof(Type)
#define ENCORE_ENTRY(function, Args)                                                       \
  ENCORE_SIZE(Args);                                                                       \
  extern "C" LaunchError encore_emulator_##function(const Args& args, const Launch& how) { \
    return function(args, how);                                                            \
  }

// NOLINTBEGIN(readability-identifier-naming): the structures' names
ENCORE_SIZE(Launch);
ENCORE_SIZE(DeviceTraits);
ENCORE_SIZE(LinearShape);
ENCORE_SIZE(LinearOperands);
ENCORE_SIZE(AttentionShape);
ENCORE_SIZE(AttentionBounds);
ENCORE_SIZE(AttentionInputs);
ENCORE_SIZE(AttentionArgs);
ENCORE_ENTRY(rms_norm, RmsNormArgs)
ENCORE_ENTRY(embed, EmbedArgs)
ENCORE_ENTRY(gather_rows, GatherRowsArgs)
ENCORE_ENTRY(silu_mul, SiluMulArgs)
ENCORE_ENTRY(add_bias, AddBiasArgs)
ENCORE_ENTRY(step_tables, StepTablesArgs)
ENCORE_ENTRY(rope_kv_write, RopeKvArgs)
ENCORE_ENTRY(dequantize, DequantizeArgs)
ENCORE_ENTRY(sample, SampleArgs)
// NOLINTEND(readability-identifier-naming)

extern "C" {

LaunchError encore_emulator_linear(const LinearShape& shape, const LinearOperands& operands,
                                   const DeviceTraits& device, const Launch& how) {
  return linear(shape, operands, device, how);
}

size_t encore_emulator_sample_workspace_bytes(int32_t max_rows, int32_t vocab_size) {
  return sample_workspace_bytes(max_rows, vocab_size);
}

int32_t encore_emulator_attention_path(const AttentionShape& shape, const DeviceTraits& device) {
  return static_cast<int32_t>(attention_path(shape, device));
}
size_t encore_emulator_attention_workspace_bytes(const AttentionShape& shape,
                                                 const AttentionBounds& bounds, int32_t path) {
  return attention_workspace_bytes(shape, bounds, static_cast<AttentionPath>(path));
}
LaunchError encore_emulator_attention_plan(const AttentionShape& shape,
                                           const AttentionBounds& bounds, int32_t path,
                                           const AttentionInputs& inputs, void* workspace,
                                           const Launch& how) {
  return attention_plan(shape, bounds, static_cast<AttentionPath>(path), inputs, workspace, how);
}
LaunchError encore_emulator_attention_run(const AttentionShape& shape,
                                          const AttentionBounds& bounds, int32_t path,
                                          const AttentionArgs& args, const Launch& how) {
  return attention_run(shape, bounds, static_cast<AttentionPath>(path), args, how);
}

}  // extern "C"
