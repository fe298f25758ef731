#!/bin/sh
# install_test.sh BUILD_DIR: installs the built tree, moves it, and runs it from there. Every shared
# library that is not part of the C and C++ runtime must come from the tree itself; but AMD's run-time
# library, and what it takes, is the machine's, as a driver is.
set -eu
build=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/first" >"$scratch/log" 2>&1 || {
  cat "$scratch/log"
  exit 1
}
mkdir "$scratch/elsewhere"
mv "$scratch/first" "$scratch/elsewhere/moved tree"
tree="$scratch/elsewhere/moved tree"
unset LD_LIBRARY_PATH || true

cd /
"$tree/bin/encore" --version
"$tree/bin/encore" plugins list | tee "$scratch/plugins"
if [ -e "$build/lib/encore/plugins/cpu.plugin.yaml" ]; then
  grep -q "^cpu .*moved tree/lib/encore/plugins/encore_backend_cpu_[a-z0-9]*.so" "$scratch/plugins"
fi
if [ -e "$build/lib/encore/plugins/encore_backend_cuda.so" ]; then
  grep -q "^cuda .*moved tree/lib/encore/plugins/encore_backend_cuda.so" "$scratch/plugins"
  if [ ! -e /proc/driver/nvidia/version ] && ! command -v nvidia-smi >/dev/null; then
    grep -q "^unavailable  *cuda: no CUDA driver" "$scratch/plugins"
  fi
fi
test -e "$tree/share/encore/configs/smollm2.yaml"
test -e "$tree/share/encore/configs/cuda.yaml"

fail=0
runtime='^(linux-vdso|libc|libm|libstdc\+\+|libgcc_s|libpthread|libdl|librt|/lib64/ld-linux-x86-64)\.so'
for file in "$tree/bin/encore" "$tree"/lib/encore/plugins/*.so; do
  [ -e "$file" ] || continue
  ldd "$file" | sed 's/^[[:space:]]*//' | grep -Ev "$runtime" >"$scratch/needed" || true
  hip=$(sed -n 's/^libamdhip64[^ ]* => \(\/[^ ]*\) .*/\1/p' "$scratch/needed")
  if [ -n "$hip" ]; then
    { basename "$hip"; ldd "$hip" | sed 's/^[[:space:]]*//; s/ .*//'; } >"$scratch/machine"
    grep -vFf "$scratch/machine" "$scratch/needed" >"$scratch/ours" || true
    mv "$scratch/ours" "$scratch/needed"
  fi
  while read -r line; do
    case $line in
      *"not found"*) echo "$file: $line"; fail=1 ;;
      *"=> $tree/"* | *"=> $tree/bin/../lib/"*) ;;
      "statically linked") ;;
      *) echo "$file takes a library from outside the tree: $line"; fail=1 ;;
    esac
  done <"$scratch/needed"
done
exit $fail
