#!/usr/bin/env bash
# Compiles kernels as the build does, and fails if ptxas says that it has serialised their wgmma
# instructions for want of registers. Such a kernel is right and a third slower, and a change far
# from its products may do it.
#
#   wgmma_stays_asynchronous.sh NVCC OUTPUT_FOLDER SOURCE_FOLDER FILE...   (of kernels/gpu)
set -euo pipefail

nvcc=$1
output=$2
kernels=$3/kernels
shift 3
failed=0
for file in "$@"; do
  said=$("$nvcc" -O3 -DNDEBUG -std=c++20 -arch=sm_90a -Xptxas -v -I "$kernels/include" \
    -I "$kernels/gpu" -cubin -o "$output/$(basename "$file").cubin" "$kernels/gpu/$file" 2>&1)
  if ! grep -q 'Used [0-9]* registers' <<<"$said"; then
    echo "$file: ptxas reports no kernel: $said"
    failed=1
  fi
  if grep -E 'serialized|[1-9][0-9]* bytes spill' <<<"$said"; then
    echo "$file: see above"
    failed=1
  fi
done
exit "$failed"
