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

using namespace encore::gpu;  // NOLINT(google-build-using-namespace): every name here is of it

#define ENCORE_SIZE(Type) \
  extern "C" const size_t encore_sizeof_##Type = sizeof(Type)
#define ENCORE_ENTRY(function, Args)                                                       \
  ENCORE_SIZE(Args);                                                                       \
  extern "C" LaunchError encore_emulator_##function(const Args& args, const Launch& how) { \
    return function(args, how);                                                            \
  }

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

extern "C" LaunchError encore_emulator_linear(const LinearShape& shape,
                                              const LinearOperands& operands,
                                              const DeviceTraits& device, const Launch& how) {
  return linear(shape, operands, device, how);
}
extern "C" size_t encore_emulator_sample_workspace_bytes(int32_t max_rows, int32_t vocab_size) {
  return sample_workspace_bytes(max_rows, vocab_size);
}
