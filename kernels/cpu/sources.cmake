# Sources of the CPU kernels by instruction-set level, and what each level needs of a processor.
# Plain lists, relative to this folder: they are read by the kernels' own CMakeLists.txt, by the CPU
# plugin's manifest, and by the SDK, which installs the generic ones.

# The same for every level, in plain C++.
set(ENCORE_CPU_KERNELS_COMMON
  attention_reference.cpp
  cpu_features.cpp
  embedding.cpp
  gather.cpp
  linear_reference.cpp
  quant.cpp
  quant_pack.cpp
  worker.cpp)

# Choose among the levels that are built in: compiled for each library, with ENCORE_CPU_BUILT_LEVEL
# (built_level.h). They hold some plain kernels too.
set(ENCORE_CPU_KERNELS_SELECTORS
  activation.cpp
  attention.cpp
  built_level.cpp
  linear.cpp
  norm.cpp
  rope.cpp
  sample.cpp)

# All of the plain kernels: they compile alone, without ENCORE_CPU_BUILT_LEVEL, with these headers
# and those of kernels/include.
set(ENCORE_CPU_KERNELS_GENERIC ${ENCORE_CPU_KERNELS_COMMON} ${ENCORE_CPU_KERNELS_SELECTORS})
set(ENCORE_CPU_KERNELS_GENERIC_HEADERS
  activation_levels.h
  attention_levels.h
  attention_run.h
  attention_tiles.h
  built_level.h
  half.h
  linear_epilogue.h
  linear_internal.h
  norm_levels.h
  quant_layout.h
  rope_levels.h
  row_range.h
  sample_filter.h
  sample_levels.h
  sample_philox.h
  sample_row.h)

# What a level adds. Matrix products stand apart: their flags differ.
set(ENCORE_CPU_KERNELS_AVX2
  activation_avx2.cpp
  attention_avx2.cpp
  linear_avx2.cpp
  linear_avx2_float.cpp
  linear_avx2_vnni.cpp
  norm_avx2.cpp
  rope_avx2.cpp
  sample_avx2.cpp)
set(ENCORE_CPU_KERNELS_AVX512
  activation_avx512.cpp
  attention_avx512.cpp
  norm_avx512.cpp
  rope_avx512.cpp
  sample_avx512.cpp)
set(ENCORE_CPU_KERNELS_AVX512_LINEAR
  linear_avx512.cpp
  linear_avx512_bf16.cpp
  linear_avx512_float.cpp)
set(ENCORE_CPU_KERNELS_AMX linear_amx.cpp)

# Levels from the lowest: the place in the list is the level's number (IsaLevel).
set(ENCORE_CPU_LEVELS generic avx2 avx512 amx)

# What each level needs of a processor, in the names of /proc/cpuinfo: what features_of() asks for
# (tests/cpu/manifest_test.cpp compares the two). Extras that single kernels check for themselves,
# such as avx_vnni, and avx512_bf16 below amx, are not in it.
set(ENCORE_CPU_REQUIRES_GENERIC)
set(ENCORE_CPU_REQUIRES_AVX2 avx avx2 fma f16c popcnt)
set(ENCORE_CPU_REQUIRES_AVX512
  ${ENCORE_CPU_REQUIRES_AVX2} avx512f avx512bw avx512dq avx512vl avx512_vnni)
set(ENCORE_CPU_REQUIRES_AMX
  ${ENCORE_CPU_REQUIRES_AVX512} avx512_bf16 amx_tile amx_int8 amx_bf16)
