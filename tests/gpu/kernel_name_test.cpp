// Names as CUPTI reports them; needs no GPU.
#include "kernel_name.h"

#include <gtest/gtest.h>

namespace encore::cuda {
namespace {

// A kernel in an anonymous namespace, as nvcc mangles it.
TEST(KernelNameTest, OwnKernelsLoseNamespacesAndTemplateArguments) {
  EXPECT_EQ(short_kernel_name("_ZN6encore3gpu47_GLOBAL__N__1f0c3a5d_9_decode_cu_0a1b2c3d_1234513"
                              "decode_kernelILi8ELb1EEEvPKfi"),
            "decode_kernel");
  EXPECT_EQ(short_kernel_name("_ZN6encore3gpu15rms_norm_kernelEPKfi"), "rms_norm_kernel");
  EXPECT_EQ(short_kernel_name("void encore::gpu::(anonymous namespace)::decode_kernel<(int)8, "
                              "encore::gpu::Tile<2, 4>>(encore::gpu::Args)"),
            "decode_kernel");
}

TEST(KernelNameTest, CublasKernelsKeepTheirTile) {
  EXPECT_EQ(short_kernel_name("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTN"), "cublas 128x256");
  EXPECT_EQ(short_kernel_name("nvjet_tst_64x8_64x16_4x1_v_bz_splitK_TNT"), "cublas 64x8 splitK");
  EXPECT_EQ(short_kernel_name("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_"
                              "warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"),
            "cublas 128x128x64");
  EXPECT_EQ(short_kernel_name("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_"
                              "256x64_32x4_tn_align8>(cutlass_80::Params)"),
            "cublas 256x64");
}

TEST(KernelNameTest, CublasKernelsWithoutATileKeepTheirFunction) {
  EXPECT_EQ(short_kernel_name("void cublasLt::splitKreduce_kernel<32, 16, int, float, true>(int)"),
            "cublas splitKreduce_kernel");
  EXPECT_EQ(short_kernel_name("void internal::gemvx::kernel<int, int, __nv_bfloat16>(int)"),
            "cublas gemvx");
}

TEST(KernelNameTest, NcclKernelsKeepTheirAlgorithm) {
  EXPECT_EQ(short_kernel_name("_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgs"
                              "StorageILm4096EE"),
            "nccl AllReduce_Sum_bf16_RING_LL");
}

TEST(KernelNameTest, OtherNamesStayAsTheyAre) {
  EXPECT_EQ(short_kernel_name("memset32"), "memset32");
  EXPECT_EQ(short_kernel_name(""), "");
  EXPECT_EQ(short_kernel_name("_Z"), "_Z");
}

}  // namespace
}  // namespace encore::cuda
